"""The control client, with a fake Tor."""

import asyncio
from contextlib import suppress

import pytest

from shoal.fetch.tor.control import Control, ControlFailed


class Script:
    """A control port that replies to each command from a table, and can send events."""

    def __init__(self, folder):
        self.socket, self.cookie = folder / "control", folder / "cookie"
        self.cookie.write_bytes(bytes(range(32)))
        self.asked, self.answers = [], {"AUTHENTICATE": "250 OK\r\n"}

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._serve, self.socket)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.hang_up()

    def say(self, text):
        self._writer.write(text.encode())

    def hang_up(self):
        self._writer.close()

    async def _serve(self, reader, writer):
        self._writer = writer
        while line := (await reader.readline()).decode().strip():
            self.asked.append(line)
            self.say(self.answers.get(line, self.answers.get(line.split()[0], "")))


@pytest.fixture
async def tor(tmp_path):
    async with Script(tmp_path) as script:
        yield script


@pytest.fixture
async def events():
    return []


@pytest.fixture
async def control(tor, events):
    opened = await Control.open(tor.socket, tor.cookie, events.append)
    yield opened
    await opened.close()


async def test_it_shows_that_it_can_read_the_cookie(tor, control):
    assert tor.asked == [f"AUTHENTICATE {bytes(range(32)).hex()}"]


async def test_a_cookie_that_tor_refuses_is_an_error_and_nothing_stays_open(tor):
    tor.answers["AUTHENTICATE"] = "515 Authentication failed\r\n"
    with pytest.raises(ControlFailed, match="rejected AUTHENTICATE: 515"):
        await Control.open(tor.socket, tor.cookie)


async def test_answers_of_one_line_and_of_many(tor, control):
    tor.answers["GETINFO version"] = "250-version=0.4.9.11\r\n250 OK\r\n"
    tor.answers["GETINFO names"] = "250-names=\r\n250-one\r\n250 OK\r\n"
    assert await control.info("version") == "0.4.9.11"
    assert await control.send_command("GETINFO names") == ["names=", "one", "OK"]


async def test_what_tor_does_not_say_is_an_error(tor, control):
    tor.answers["GETINFO version"] = "250 OK\r\n"
    with pytest.raises(ControlFailed, match="did not report version"):
        await control.info("version")


async def test_a_refusal_says_what_was_refused_and_the_next_question_is_answered(tor, control):
    tor.answers |= {"SIGNAL": "552 Unrecognized signal\r\n", "PING": "250 OK\r\n"}
    with pytest.raises(ControlFailed, match="SIGNAL: 552 Unrecognized signal"):
        await control.send_command("SIGNAL NONSENSE")
    assert await control.send_command("PING") == ["OK"]


async def test_events_between_questions_and_answers_are_no_answers(tor, control, events):
    event = "650 STATUS_CLIENT NOTICE CIRCUIT_ESTABLISHED\r\n"
    tor.answers["PING"] = f"{event}250 OK\r\n{event}"
    assert await control.send_command("PING") == ["OK"]
    assert await control.send_command("PING") == ["OK"]
    assert events[:2] == ["STATUS_CLIENT NOTICE CIRCUIT_ESTABLISHED"] * 2


async def test_questions_at_once_get_their_own_answers(tor, control):
    tor.answers |= {f"GETINFO {n}": f"250-{n}={n}{n}\r\n250 OK\r\n" for n in range(20)}
    found = await asyncio.gather(*(control.info(str(n)) for n in range(20)))
    assert found == [f"{n}{n}" for n in range(20)]


async def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(tor, control, monkeypatch):
    monkeypatch.setattr("shoal.fetch.tor.control.REPLY_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(ControlFailed, match="did not reply to SLOW"):
        await control.send_command("SLOW")
    monkeypatch.undo()
    tor.say("250 late\r\n")
    tor.answers["PING"] = "250 OK\r\n"
    assert await control.send_command("PING") == ["OK"]


async def test_when_tor_closes_the_connection_waiting_calls_fail_and_so_does_the_next(tor, control):
    waiting = asyncio.create_task(control.send_command("SLOW"))
    while "SLOW" not in tor.asked:
        await asyncio.sleep(0)
    tor.hang_up()
    with pytest.raises(ControlFailed, match="closed the control connection"):
        await waiting
    await asyncio.wait([control.reading])
    with pytest.raises(ControlFailed, match="closed the control connection before PING"):
        await control.send_command("PING")


@pytest.mark.parametrize("junk", ["\r\n", "250\r\n", "x" * 70_000 + "\r\n", "250-more\r\n" * 10_001])
async def test_junk_ends_in_an_error_and_never_hangs(tor, control, junk, monkeypatch):
    monkeypatch.setattr("shoal.fetch.tor.control.REPLY_TIMEOUT_SECONDS", 5)
    tor.answers["PING"] = junk
    with suppress(ControlFailed):
        await control.send_command("PING")
