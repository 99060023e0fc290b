"""Large and hostile sources, each in a process of its own, so that its memory can be measured."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.integration.discover.making import HOME, MIB, write_urls
from tests.integration.processes import start_process

ROOT = Path(__file__).parents[3]


async def probe(kind, argument=""):
    process = await start_process(
        sys.executable,
        "-m",
        "tests.integration.discover.probe",
        kind,
        str(argument),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.long
async def test_a_large_url_file_streams_in_the_memory_of_a_small_one(tmp_path):
    path = tmp_path / "urls.txt"
    _, bad = write_urls(path, 200_000)
    answer = await probe("files", path)
    assert answer["found"] == {"Task": 200_000 - len(bad), "Refusal": len(bad)}
    assert answer["grown"] < 10 * MIB


@pytest.mark.long
async def test_a_tree_of_sitemaps_streams_in_the_memory_of_one_file():
    answer = await probe("tree", 20)
    assert (answer["seen"], answer["urls"], answer["files"]) == (100_000, 100_000, 21)
    assert answer["grown"] < 40 * MIB


async def test_hostile_sitemaps_are_bounded_and_named_and_the_good_one_is_read():
    answer = await probe("hostile")
    assert [url for url in answer["urls"] if url] == [f"{HOME}/a", f"{HOME}/good"]
    problems = {url.removeprefix(f"{HOME}/"): reason for url, reason in answer["problems"].items()}
    declared = "its DOCTYPE declares entities or elements, as XML bombs do"
    too_large = "it has more than 52,428,800 bytes"
    assert problems == {
        "laughs": declared,
        "entity": declared,
        "itself": f"it lists {HOME}/itself, one of its parents: a loop",
        "gzip": too_large,
        "gzip-list": f"{too_large}; its first 1 entries were read",
    }
    assert answer["skipped"] == {"another host": 1, "loop": 1}
    assert answer["grown"] < 50 * MIB
    assert answer["seconds"] < 20
