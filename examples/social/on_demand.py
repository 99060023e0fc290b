"""Calls listening workers by each strategy, and prints which machine answered how often."""

import asyncio
from collections import Counter

import shoal

CALLS = 12


async def main() -> None:
    async with shoal.connect() as app:
        for strategy in ("least_loaded", "round_robin", "random"):
            task = shoal.Task(step="profile", payload={"username": "gita_paints_0"})
            calls = (app.call("social", task, strategy=strategy) for _ in range(CALLS))
            machines = Counter(call.worker_id.rsplit("-", 2)[0] for call in await asyncio.gather(*calls))
            print(strategy, *(f"{name}={count}" for name, count in sorted(machines.items())), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
