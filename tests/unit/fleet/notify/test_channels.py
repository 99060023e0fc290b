"""What is sent to webhooks, Slack and mail servers, and what of a failure is shown."""

import asyncio
import base64
import hmac
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.notifications import Notification
from shoal.fleet.notify import channels
from shoal.fleet.notify.channels import NotSent, read_channels
from shoal.fleet.notify.mail import mail_of
from shoal.fleet.project.file import Project
from tests.unit.fleet.notify.receiver import BROKEN, HANG, Receiver

MESSAGE = Notification(
    id="evt_1",
    event="failed",
    state="open",
    title="Run a of <books> & co failed",
    text="because",
    at=datetime(2026, 2, 15, 12, tzinfo=UTC),
    scraper="books",
)


def channel(**table):
    (found,) = read_channels(Project(Path.cwd(), Path("shoal.toml"), notify={"team": table}))
    return found


async def test_a_webhook_is_signed_so_that_its_receiver_can_verify_body_id_and_time(monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret-of-hooks")
    async with Receiver() as receiver:
        await channel(url=receiver.url, secret="env:HOOK_SECRET").send(MESSAGE)
    ((headers, body),) = receiver.requests
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    seal = base64.b64encode(hmac.new(b"s3cret-of-hooks", signed, sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{seal}"
    assert headers["webhook-id"] == receiver.messages[0]["id"] == "evt_1"
    assert "s3cret" not in str(receiver.requests)
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60  # of the attempt, not of the event


async def test_a_webhook_without_a_secret_is_not_signed():
    async with Receiver() as receiver:
        await channel(url=receiver.url).send(MESSAGE)
    assert "webhook-signature" not in receiver.requests[0][0]


async def test_slack_gets_a_text_in_which_nothing_is_a_link_or_a_mention():
    async with Receiver() as receiver:
        await channel(kind="slack", url=receiver.url).send(MESSAGE)
    assert receiver.messages == [{"text": ":warning: *Run a of &lt;books&gt; &amp; co failed*\nbecause"}]


@pytest.mark.parametrize(
    ("answer", "said"), [(500, "status 500"), (302, "redirects"), (BROKEN, "Error|connection")]
)
async def test_what_is_no_success_is_an_error(answer, said):
    async with Receiver(answer) as receiver:
        with pytest.raises(NotSent, match=said):
            await channel(url=receiver.url).send(MESSAGE)
    assert len(receiver.requests) == 1


async def test_a_receiver_that_hangs_is_left_after_a_while(monkeypatch):
    monkeypatch.setattr(channels, "SEND_TIMEOUT", timedelta(seconds=0.2))
    async with Receiver(HANG) as receiver:
        with pytest.raises(NotSent, match=r"within 0\.2 s"):
            await channel(url=receiver.url).send(MESSAGE)


@pytest.mark.parametrize(
    "address", ["http://me:pw@hooks.example/T0P", "htp://hooks.example/T0P", "http://hooks.example:99999/T0P"]
)
def test_an_address_that_can_never_work_is_refused_and_not_shown(monkeypatch, address):
    monkeypatch.setenv("HOOK_URL", address)
    with pytest.raises(InvalidSetting, match=r"notify\.team\.url") as refused:
        channel(url="env:HOOK_URL")
    assert "T0P" not in str(refused.value) and "pw" not in str(refused.value)


async def test_no_error_contains_the_address_which_is_as_good_as_a_password(monkeypatch):
    async with Receiver() as gone:
        address = f"http://127.0.0.1:{gone.port}/services/T000/B000/verysecrettoken"
    monkeypatch.setenv("SLACK_URL", address)
    with pytest.raises(NotSent) as caught:
        await channel(kind="slack", url="env:SLACK_URL").send(MESSAGE)
    assert "verysecrettoken" not in str(caught.value) and str(caught.value)


class MailSink:
    """As much of an SMTP server as a client needs."""

    def __init__(self):
        self.mails = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc):
        self._server.close()

    async def _talk(self, reader, writer):
        writer.write(b"220 sink\r\n")
        while line := await reader.readline():
            match line[:4].upper():
                case b"DATA":
                    writer.write(b"354 go on\r\n")
                    self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                    writer.write(b"250 taken\r\n")
                case b"QUIT":
                    writer.write(b"221 bye\r\n")
                    break
                case _:
                    writer.write(b"250 ok\r\n")
        writer.close()


async def test_a_mail_is_sent_with_the_id_of_its_event():
    async with MailSink() as sink:
        table = {"kind": "email", "server": sink.address, "tls": "none", "sender": "shoal@a.example"}
        await channel(**table, to=["ops@a.example"]).send(MESSAGE)
    (mail,) = sink.mails
    assert b"Message-ID: <evt_1@shoal>" in mail and b"To: ops@a.example" in mail and b"because" in mail


def test_a_title_with_line_breaks_adds_no_header():
    evil = Notification(
        id="evt_2", event="failed", state="open", title="a\nBcc: x@evil.example", at=MESSAGE.at
    )
    assert mail_of(evil, "a@a.example", ["b@b.example"])["Bcc"] is None


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "slak", "url": "https://a.example"}, "Did you mean 'slack'"),
        ({}, "team.url is missing"),
        ({"url": "a.example"}, "must be an address"),
        ({"url": "https://a.example", "secret": "plain"}, "do not write a secret"),
        ({"url": "https://a.example", "events": ["failde"]}, "must be 'finished'"),
        ({"kind": "email", "server": "a.example:25", "sender": "a@a"}, "team.to is missing"),
        ({"kind": "email", "tls": "none", "password": "env:PATH"}, "would send the password unencrypted"),
        ({"kind": "email", "server": "a.example", "sender": "a@a", "to": "b@b"}, "HOST:PORT"),
    ],
)
def test_a_wrong_table_is_refused_by_name(table, said):
    with pytest.raises(InvalidSetting, match=r"notify\.team|server") as caught:
        channel(**table)
    assert said in str(caught.value)


def test_a_channel_whose_secret_is_not_set_here_is_not_used_and_said():
    told = []
    project = Project(
        Path.cwd(), Path("shoal.toml"), notify={"team": {"kind": "slack", "url": "env:NOT_SET_X"}}
    )
    (found,) = read_channels(project, told.append)
    assert "NOT_SET_X" in found.missing
    assert told == [
        "No messages are sent to 'team' from here: shoal.toml: notify.team needs the variable NOT_SET_X. "
        "Set it, or write it into .env"
    ]
