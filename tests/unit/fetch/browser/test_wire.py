"""The line to a browser, without one."""

import json

import pytest

from shoal.fetch.browser.wire import Wire, WireFailed


class Pipe:
    """Takes what is written to the browser, and loses it."""

    def get_pipe_transport(self, number):
        return self

    def write(self, data):
        pass


def said(**message):
    return json.dumps(message).encode() + b"\0"


async def test_an_event_that_cannot_be_handled_fails_its_session_and_no_other():
    wire = Wire()
    wire.connection_made(Pipe())
    wire.listen("one", lambda *event: event["no such key"])
    lost, kept = wire.call("Page.navigate", "one"), wire.call("Page.navigate", "two")
    wire.pipe_data_received(
        1, said(method="Page.loadEventFired", sessionId="one") + said(id=2, result={"frameId": "7"})
    )
    with pytest.raises(WireFailed, match=r"Page\.loadEventFired could not be handled"):
        await lost
    assert await kept == {"frameId": "7"}
