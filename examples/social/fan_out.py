"""Fans out a task for each of the most followed users, and gathers their followers as they come in.

Start it again whenever it was interrupted: the run has a name, so its tasks are not queued twice, and what
was gathered before is read again from the store.
"""

import asyncio
import json
from pathlib import Path

import shoal

RUN = "followers-of-the-top"
TOP, LIMIT = 20, 50
PROFILES, GATHERED = Path("results/profiles.jsonl"), Path("gathered.json")


async def main() -> None:
    known = [json.loads(line) for line in PROFILES.read_text().splitlines()]
    top = sorted(known, key=lambda one: (-one["followers"], one["username"]))[:TOP]
    tasks = [
        shoal.Task(step="followers", payload={"username": one["username"], "limit": LIMIT}, priority=5)
        for one in top
    ]
    async with shoal.connect() as app:
        run = await app.start("social", run_id=RUN, tasks=tasks)
        print(f"{run.report.added} tasks queued, {run.report.duplicate} were known", flush=True)
        gathered: dict[str, list[str]] = {}
        async for item in run.results():
            gathered[item["username"]] = item["followers"]
            print(f"{len(gathered)} of {len(tasks)}: {item['username']}", flush=True)
        counts = await run.wait()
        print(f"{counts.completed} done, {counts.dead} dead letters", flush=True)
    GATHERED.write_text(json.dumps(dict(sorted(gathered.items())), indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
