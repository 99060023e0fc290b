"""The CDP connection, without a browser."""

import json

import pytest

from shoal.fetch.browser.cdp import CdpConnection, CdpError


class Pipe:
    """Accepts what is written to the browser, and discards it."""

    def get_pipe_transport(self, number):
        return self

    def write(self, data):
        pass


def said(**message):
    return json.dumps(message).encode() + b"\0"


async def test_an_event_that_cannot_be_handled_fails_its_session_and_no_other():
    cdp = CdpConnection()
    cdp.connection_made(Pipe())
    cdp.listen("one", lambda *event: event["no such key"])
    lost, kept = cdp.call("Page.navigate", "one"), cdp.call("Page.navigate", "two")
    cdp.pipe_data_received(
        1, said(method="Page.loadEventFired", sessionId="one") + said(id=2, result={"frameId": "7"})
    )
    with pytest.raises(CdpError, match=r"Page\.loadEventFired could not be handled"):
        await lost
    assert await kept == {"frameId": "7"}
