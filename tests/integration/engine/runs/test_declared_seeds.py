"""Seeds and arguments that a scraper declares, from the command line, from Python and after a crash."""

import asyncio
import json
import sys
import textwrap

import pytest

from shoal import connect
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.fleet.run.lifecycle import purge
from shoal.queue.open import open_queue
from shoal.queue.run_args import stored_args
from tests.integration.engine.shell import typed
from tests.integration.processes import start_process

SHOP = """
    import os
    from pathlib import Path
    from shoal import Page, Scraper, Task

    args = {{"category": str, "pages": 3}}
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1", args=args)

    @shop.seeds
    async def seeds(args):
        for number in range(args.pages):
            yield f"{url}/{{args.category}}/{{number}}"
            crash = Path("crash")
            if number == 1 and crash.exists():
                crash.unlink()
                os.kill(os.getpid(), 9)

    @shop.step
    async def listing(page: Page):
        yield {{"url": page.url, "category": page.args.category}}
        yield Task(step=count, payload={{"url": page.url}})

    @shop.step(fetch=None)
    async def count(task: Task):
        yield {{"pages": shop.args.pages}}
"""


@pytest.fixture
def shop(tmp_path, origin):
    """Write the scraper's file and return its folder."""
    code = textwrap.dedent(SHOP).format(url=origin.url).replace('"127.0.0.1"', f'"127.0.0.1:{origin.port}"')
    (tmp_path / "shop.py").write_text(code)
    return tmp_path


def items_of(folder, name="items.jsonl"):
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return sorted(row["url"].partition("/lamps/")[2] for row in rows if "url" in row), rows


async def test_a_run_that_was_killed_while_it_was_seeded_goes_on_with_its_arguments(shop, origin):
    (shop / "crash").touch()
    killed = await typed("run", "shop.py", "-a", "category=lamps", folder=shop)
    assert killed.code == -9 and not (shop / "crash").exists()

    resumed = await typed("run", "shop.py", "--resume", "newest", "--out", "items.jsonl", folder=shop)
    assert resumed.code == 0, resumed.err
    assert "Seeds: shop.py. Enqueueing them was interrupted" in resumed.err
    numbers, rows = items_of(shop)
    assert numbers == ["0", "1", "2"] and {"pages": 3} in rows
    assert {row["category"] for row in rows if "url" in row} == {"lamps"}
    assert set(origin.visits.values()) == {1}

    again = await typed("run", "shop.py", "--resume", "newest", folder=shop)
    assert "found no unfinished run" in again.err  # what was seeded to the end is not seeded again
    run = json.loads((await typed("runs", "--json", folder=shop)).out)
    assert f"to write its items again: --resume {run['run_id']}." in again.err


LISTING = """
    shop = Scraper("shop", rate=None, robots=False, args={"category": str, "pages": 3})

    @shop.step
    async def listing(page: Page):
        yield {"category": page.args.category, "pages": page.args.pages}
"""


async def test_a_resumed_run_has_its_arguments_until_it_is_purged(bench, origin):
    first = await bench.run(LISTING, [f"{origin.url}/1"], args=["category=lamps", "pages=7"])
    again = await bench.run(LISTING, [f"{origin.url}/2"], run_id=first.run.id, resume=True)
    assert again.snapshot.stats.completed == 2
    assert await bench.items(first.run.id) == 2 * [{"category": "lamps", "pages": 7}]
    async with open_queue(bench.queue_url) as queue:
        await purge(queue, first.run.id)
        assert await stored_args(queue, first.run.id) is None


async def test_sources_that_are_typed_replace_those_that_are_declared(shop, origin):
    (shop / "shoal.toml").write_text(
        f'[scrapers.shop]\nmodule = "shop.py"\nargs = {{category = "lamps"}}\n'
        f'[scrapers.shop.seeds]\nurl = ["{origin.url}/lamps/toml"]\n'
    )
    declared = await typed("run", "shop", "--out", "items.jsonl", folder=shop)
    assert "Seeds: shoal.toml" in declared.err and items_of(shop)[0] == ["toml"]
    as_json = await typed("run", "shop", "--json", folder=shop)
    assert {"message": "Seeds: shoal.toml"} in [json.loads(line) for line in as_json.err.splitlines()]
    words = ("enqueue", "shop", "--url", f"{origin.url}/x", "--json")
    queued = await typed(*words, folder=shop)
    assert queued.row["enqueued"] == 1
    assert "The typed sources replace the seeds of shoal.toml." in queued.err


async def test_arguments_are_stored_with_the_run_for_workers_that_join_it(shop):
    queued = await typed("enqueue", "shop.py", "-a", "category=lamps", "-a", "pages=2", "--json", folder=shop)
    run_id = queued.row["run_id"]
    assert queued.row["enqueued"] == 2 and "category" not in queued.row["worker_command"]
    joined = await typed("work", "shop.py", "--run", run_id, "--json", folder=shop)
    assert (joined.row["completed"], joined.row["dead"]) == (4, 0)
    for words in (
        ("run", "shop.py", "--resume", run_id, "-a", "pages=9"),
        ("run", "shop.py"),
        ("run", "shop.py", "-a", "category"),
    ):
        refused = await typed(*words, folder=shop)
        assert refused.code == 2, refused.err
    async with open_queue(f"sqlite:///{shop}/shoal.db") as queue:
        assert [run.id for run in await queue.runs()] == [run_id]


async def test_a_program_starts_a_scraper_of_its_own_with_arguments(shop, monkeypatch):
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(str(shop))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    import shop as module

    async with connect(f"sqlite:///{shop}/app.db") as app:
        with pytest.raises(InvalidSetting, match="argument 'category' of 'shop' is missing"):
            await app.start(module.shop)
        assert not await app.runs()
        run = await app.start(module.shop, args={"category": "lamps", "pages": 2}, workers=1)
        await run.wait()
        found = [item async for item in run.results()]
        assert sorted(row["category"] for row in found if "url" in row) == ["lamps", "lamps"]
        again = await app.start(module.shop, run_id=run.id)
        assert (again.report.added, again.report.duplicate) == (0, 0)
        with pytest.raises(InvalidSetting, match="cannot be changed"):
            await app.start(module.shop, run_id=run.id, args={"pages": 3})
        with pytest.raises(InvalidInput, match="at the top level"):
            await app.start(module.shop.replace(retries=1))


async def test_a_script_runs_the_scraper_that_it_defines(shop):
    script = (shop / "shop.py").read_text() + textwrap.dedent(
        """
        async def main():
            import shoal

            async with shoal.connect("sqlite:///own.db") as app:
                run = await app.start(shop, args={"category": "lamps"}, workers=1)
                await run.wait()
                print(run.report.added, (await run.stats()).completed)


        if __name__ == "__main__":
            import asyncio

            asyncio.run(main())
        """
    )
    (shop / "own.py").write_text(script)
    process = await start_process(
        sys.executable, "own.py", cwd=shop, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert out.split() == [b"3", b"6"], err.decode()
