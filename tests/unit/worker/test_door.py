"""The door of a listening worker lets in who has the secret; nobody can make it wait or swallow too much."""

import asyncio
import time

import pytest

from shoal.core.errors import InvalidSetting
from shoal.worker import door as module
from shoal.worker.calls import NONCE, SEAL, Listening, Seal
from shoal.worker.door import LONGEST_BODY, LONGEST_HEAD, Door, Reply

HERE = Listening(host="127.0.0.1")


@pytest.fixture
def seal():
    return Seal(b"a secret that both have")


@pytest.fixture
async def door(seal):
    async def attend(method, path, body):
        heard.append((method, path, body))
        return Reply(200, body[::-1])

    heard = []
    async with Door(HERE, seal, attend) as door:
        door.heard = heard
        yield door


async def say(door, *parts):
    """Send bytes to the door, and return all that it says until it hangs up or has answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(door.address.rpartition(":")[2]))
    try:
        for part in parts:
            writer.write(part)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def question(seal, method="POST", path="/w/call", body=b"abc", **more):
    fields = seal.question(method, path, body, time.time()) | {"content-length": str(len(body))} | more
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body, fields


async def test_sealed_questions_are_answered_under_a_seal_one_after_the_other(door, seal):
    (first, fields), (second, _) = question(seal), question(seal, body=b"xy")
    said = await say(door, first, second)
    assert said.count(b"200 OK") == 2 and b"\r\n\r\ncba" in said and said.endswith(b"\r\n\r\nyx")
    sealed = said.split(f"{SEAL}: ".encode())[1][:64].decode()
    seal.check_answer(fields[NONCE], 200, b"cba", sealed)


async def test_strangers_are_not_heard(door):
    said = await say(door, b"POST /w/call HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc")
    assert b"401" in said and not door.heard
    said = await say(door, question(Seal(b"a secret of their own"))[0])
    assert b"401" in said and not door.heard


async def test_the_body_of_a_stranger_is_not_even_read(door):
    head, _ = question(Seal(b"a secret of their own"), body=b"x" * 1_000_000)
    assert b"401" in await say(door, head[:-1_000_000])


async def test_a_question_that_was_overheard_is_not_heard_again(door, seal):
    asked, _ = question(seal)
    assert b"200" in await say(door, asked)
    assert b"401" in await say(door, asked)
    assert len(door.heard) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"content-length": str(LONGEST_BODY + 1)},
        {"content-length": "-1"},
        {"content-length": "9" * 5000},
        {"content-length": "٣"},
        {"transfer-encoding": "chunked"},
    ],
)
async def test_bodies_without_a_sensible_length_are_refused(door, seal, more):
    assert b"400" in await say(door, question(seal, **{"content-length": "3"} | more)[0])
    assert not door.heard


@pytest.mark.parametrize("head", [b"BREW / HTTP/1.1", b"GET", b"\x00\xff\xfe", b"GET  / HTTP/1.1"])
async def test_what_is_no_question_is_refused(door, head):
    assert (await say(door, head + b"\r\n\r\n")).startswith(b"HTTP/1.1 400")


async def test_a_head_that_does_not_end_is_hung_up_on(door):
    assert await say(door, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * LONGEST_HEAD) == b""


async def test_a_guest_that_dawdles_is_shown_out(door, seal, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(door.address.rpartition(":")[2]))
    writer.write(question(seal)[0][:-1])
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_one_guest_too_many_is_hung_up_on(door, seal, monkeypatch):
    monkeypatch.setattr(module, "MOST_GUESTS", 0)
    assert await say(door, question(seal)[0]) == b""


async def test_workers_of_one_machine_listen_at_the_ports_behind_the_first(door, seal):
    taken = int(door.address.rpartition(":")[2])
    with pytest.raises(InvalidSetting, match="Name another port"):
        await Door(Listening(host="127.0.0.1", port=taken), seal, None).__aenter__()
    async with Door(Listening(host="127.0.0.1", port=taken, ports=20), seal, None) as second:
        assert taken < int(second.address.rpartition(":")[2]) < taken + 20


async def test_a_worker_is_announced_where_callers_reach_it(seal):
    listening = Listening(host="127.0.0.1", announce="https://here.example/{port}")
    async with Door(listening, seal, None) as door:
        assert door.address.startswith("https://here.example/")
