"""Randomly damaged responses: each gives a page or one of our errors, and soon."""

import asyncio
import gzip
import random
from collections import Counter
from datetime import timedelta

from shoal.core.errors import FetchError, FetchTimeout
from shoal.core.http import Request
from shoal.fetch.contract import Limits
from tests.integration.fetch.hostile import page, raw, redirect

CASES = 200
BODY = b"A page of some words, " * 20
SEEDS = [
    page(BODY, "Content-Type: text/html; charset=utf-8", "Set-Cookie: id=1; Path=/; Max-Age=60"),
    page(gzip.compress(BODY), "Content-Encoding: gzip", "ETag: x"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"10\r\n0123456789abcdef\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\n",
    redirect("/target?a=b", "Set-Cookie: seen=1"),
    b"HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\ngone",
    b"HTTP/1.1 100 Continue\r\n\r\n" + page(b"after"),
]
SPICES = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b":",
    b" ",
    b"\xff\xfe",
    b"Content-Length: 7\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Content-Encoding: br\r\n",
    b"Location: //[::1\r\n",
    b"9" * 30,
    b"HTTP/1.1 200 OK\r\n",
    b"\t",
    b"%" * 9,
]


def shaken(chance: random.Random) -> bytes:
    answer = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(answer) + 1)
        match chance.randrange(4):
            case 0:
                answer[at : at + chance.randint(1, 20)] = b""
            case 1:
                answer[at:at] = chance.choice(SPICES)
            case 2:
                answer[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                answer[at:] = b"" if chance.random() < 0.3 else answer[at:]
    return bytes(answer)


async def test_a_shaken_answer_gives_a_page_or_a_named_error(make_fetcher, origin):
    chance, outcomes = random.Random(2026), Counter()
    fetcher, slots = make_fetcher(Limits(max_body=1 << 20)), asyncio.Semaphore(20)
    origin.on("/target", page())

    async def visit(number: int) -> None:
        url = origin.on(f"/{number}", raw(shaken(chance)))
        async with slots:
            try:
                await fetcher.fetch(Request(url=url, timeout=timedelta(seconds=10)))
                outcomes["page"] += 1
            except FetchError as error:
                outcomes[type(error)] += 1

    await asyncio.gather(*(visit(number) for number in range(CASES)))
    assert sum(outcomes.values()) == CASES
    assert outcomes[FetchTimeout] == 0
    assert outcomes["page"] > 15
    assert len(outcomes) > 1
    assert (await fetcher.fetch(Request(url=origin.url("/target")))).body == b"hello"
