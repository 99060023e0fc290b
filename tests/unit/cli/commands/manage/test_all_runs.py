"""Lists of what all runs have."""

import asyncio
import json
import shlex

from shoal.core.model import INVALID_SEED, Bury, Done, Task
from shoal.queue.open import open_queue
from tests.unit.cli.typed import typed


def test_items_and_dead_letters_of_all_runs_are_listed_page_by_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def fill():
        async with open_queue("sqlite:///shoal.db") as queue:
            for name in ("older", "newer"):
                await queue.start_run("names", run_id=name)
                await queue.enqueue(name, [Task(payload={"n": n}, step="name") for n in range(2)])
                good, bad = (await queue.claim("one", run_id=name, limit=2)).leases
                await queue.settle([Done(good, items=[{"of": name}]), Bury(bad, f"ValueError: {name}")])

    asyncio.run(fill())
    for words in ("items --all-runs --step name --head 1", "dead list --limit 1 --error ValueError"):
        rows, following = [], words
        while following:
            done = typed(*shlex.split(following), "--json")
            lines = done.stdout.splitlines()
            rows += [json.loads(line) for line in lines if "run_id" in line]
            _, _, more = done.stderr.partition("continue with: shoal ")
            following = more.splitlines()[0].replace(" --json", "") if more else ""
        assert [row["run_id"] for row in rows] == ["newer", "older"]
    assert "dead show newer" in typed("dead", "list").output
    assert typed("items", "newer", "--all-runs").exit_code == 2


def test_an_invalid_seed_is_listed_with_its_line_and_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def fill():
        seed = {"where": "seeds.txt:3", "text": "nonsense", "reason": "it has no scheme"}
        async with open_queue("sqlite:///shoal.db") as queue:
            await queue.start_run("books", run_id="r")
            await queue.enqueue("r", [Task(step=INVALID_SEED, payload=seed)])
            (lease,) = (await queue.claim("w", run_id="r")).leases
            await queue.settle([Bury(lease, "it has no scheme")])

    asyncio.run(fill())
    for words in (("dead", "list", "r"), ("dead", "list")):
        assert "seeds.txt:3 nonsense" in typed(*words, "--wide").stdout
