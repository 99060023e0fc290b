"""A process that increments one note, by swaps or plain writes, and reports the number of attempts."""

from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.integration.programs import Orders, Stage, main

TOPIC, KEY = "counts", "one"


async def work(orders: Orders, stage: Stage) -> int:
    count_up = by_swap if orders["by"] == "swap" else by_write
    async with open_queue(orders["url"]) as queue:
        await stage.ready()
        return sum([await count_up(queue) for _ in range(orders["times"])])


async def by_swap(queue: Queue) -> int:
    """Increment by one, and return the number of attempts."""
    tries = 0
    while True:
        tries += 1
        note = (await queue.notes(TOPIC, [KEY])).get(KEY)
        value = str(int(note.value) + 1 if note else 1).encode()
        if await queue.swap_note(TOPIC, KEY, value, stamp=note.stamp if note else None):
            return tries


async def by_write(queue: Queue) -> int:
    """Increment as if no other process did."""
    note = (await queue.notes(TOPIC, [KEY])).get(KEY)
    await queue.write_notes(TOPIC, {KEY: str(int(note.value) + 1 if note else 1).encode()})
    return 1


if __name__ == "__main__":
    main(work)
