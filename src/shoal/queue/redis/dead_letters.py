"""Dead letters: listed, replayed, dropped and edited."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from shoal.core.model import DeadFilter, DeadLetter
from shoal.core.urls import host_of
from shoal.queue.intake import QueuedTask
from shoal.queue.paging import cursor_of, page_sizes
from shoal.queue.redis.records import dead_letter, key_of, pack, pack_task, read_letter
from shoal.queue.redis.reports import PAGE, RedisReader, StepGroupNames, pair_of
from shoal.queue.redis.runs import RunList
from shoal.queue.redis.server import Argument
from shoal.queue.redis.shards import home_of, shard_of_id
from shoal.queue.requests import EditFate, LetterEdit

EDIT_FATES = {1: EditFate.EDITED, 0: EditFate.DUPLICATE, -1: EditFate.CHANGED}


class DeadLetterReader(RedisReader):
    """Reads the dead letters of runs."""

    async def select_dead(
        self, shard: int, number: int, ids: Sequence[bytes] | None, where: DeadFilter
    ) -> AsyncIterator[list[str]]:
        """Stream the ids of the dead letters of a shard that match, a page at a time."""
        selected = None if ids is None else {one.hex() for one in ids}
        # Only up to the newest of now: a letter that dies again meanwhile is not processed twice.
        until = await self.last_dead(shard, number)
        after, page = await self.dead_page(shard, number, 0, until)
        while until and after:
            letters = (letter for _, letter in page if selected is None or letter.id in selected)
            if found := [letter.id for letter in letters if matches(letter, where)]:
                yield found
            after, page = await self.dead_page(shard, number, after, until)

    async def dead(self, number: int, where: DeadFilter, after: str | None) -> AsyncIterator[DeadLetter]:
        """Stream the dead letters of a run, the oldest first."""
        order, home = pair_of(after)
        # Of two letters with the same order, that of the lower shard comes first.
        streams = [self.dead_letters(shard, number, order - (shard > home)) for shard in range(self._shards)]
        async for (order, shard), letter in self._merged(streams, lambda row: row[0]):
            if matches(letter, where):
                yield replace(letter, cursor=cursor_of(order, shard))

    async def named_letters(
        self, number: int, ids: Sequence[bytes], where: DeadFilter, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        """Stream the dead letters of a run that have these ids."""
        begin, found = pair_of(after), []
        for shard in range(self._shards if ids else 0):
            orders = await self.command(shard, "ZMSCORE", f"{number}:dead_order", *ids)
            letters = await self.command(shard, "HMGET", f"{number}:dead", *ids)
            names = StepGroupNames(self, shard, number)
            for order, letter in zip(orders, letters, strict=True):
                if order is not None and letter is not None:
                    row = read_letter(letter)
                    step_group = {row.step_group: list(await names.of(row.step_group))}
                    found.append(((int(float(order)), shard), dead_letter(row, step_group)))
        for position, letter in sorted(found, key=lambda row: row[0]):
            if (after is None or position > begin) and matches(letter, where):
                yield replace(letter, cursor=cursor_of(*position))

    async def stored_letter(self, number: int, letter: DeadLetter) -> tuple[int, int, bytes] | None:
        """Return the shard, the order and the record of a dead letter; None if it has changed."""
        task_id = bytes.fromhex(letter.id)
        for shard in range(self._shards):
            stored = await self.command(shard, "HGET", f"{number}:dead", task_id)
            order = await self.command(shard, "ZSCORE", f"{number}:dead_order", task_id)
            if stored is None or order is None:
                continue
            row, names = read_letter(stored), StepGroupNames(self, shard, number)
            if dead_letter(row, {row.step_group: list(await names.of(row.step_group))}) == letter:
                return shard, int(float(order)), stored
        return None

    async def last_dead(self, shard: int, number: int) -> int:
        """Return the order of the newest dead letter of a shard, 0 if there is none."""
        found = await self.command(
            shard, "ZREVRANGEBYSCORE", f"{number}:dead_order", "+inf", "-inf", "WITHSCORES", "LIMIT", 0, 1
        )
        return int(found[1]) if found else 0

    async def dead_page(
        self, shard: int, number: int, after: int, until: int, size: int = PAGE
    ) -> tuple[int, list[tuple[int, DeadLetter]]]:
        """Return where a page of dead letters ends, 0 after the last one, and the page with its order."""
        found = await self.command(
            shard,
            "ZRANGEBYSCORE",
            f"{number}:dead_order",
            f"({after}",
            until or "+inf",
            "WITHSCORES",
            "LIMIT",
            0,
            size,
        )
        if not found:
            return 0, []
        names = await self.names(shard, number)
        letters = await self.command(shard, "HMGET", f"{number}:dead", *found[::2])
        # A letter that was replayed in the meantime is missing.
        return int(found[-1]), [
            (int(order), dead_letter(read_letter(letter), names))
            for order, letter in zip(found[1::2], letters, strict=True)
            if letter is not None
        ]

    async def dead_letters(
        self, shard: int, number: int, after: int
    ) -> AsyncIterator[tuple[tuple[int, int], DeadLetter]]:
        """Stream the dead letters of a shard, each with its order and the shard."""
        sizes = page_sizes(PAGE)
        after, page = await self.dead_page(shard, number, after, 0, next(sizes))
        while after:
            for order, letter in page:
                yield (order, shard), letter
            after, page = await self.dead_page(shard, number, after, 0, next(sizes))


def matches(letter: DeadLetter, where: DeadFilter) -> bool:
    """Return whether a dead letter matches every given condition."""
    return (
        where.step in (None, letter.task.step)
        and where.partition in (None, letter.task.partition)
        and (where.host is None or _is_on(letter.task.url, where.host.lower()))
        and (where.error is None or where.error in letter.error)
        and (where.buried_before is None or letter.buried_at < where.buried_before)
        and (where.buried_after is None or letter.buried_at > where.buried_after)
    )


def _is_on(url: str | None, host: str) -> bool:
    """Return whether a URL is on a host; one without a port is meant on every port."""
    found = host_of(url) if url is not None else ""
    return found == host or found.startswith(f"{host}:")


async def apply_to_letters(
    runs: RunList,
    reader: DeadLetterReader,
    run_id: str,
    verb: str,
    ids: Sequence[bytes] | None,
    where: DeadFilter,
    delay: int = 0,
) -> int:
    """Replay or drop dead letters, a page at a time; return how many."""
    number, count = await runs.number(run_id), 0
    for shard in range(reader.shards):
        async for page in reader.select_dead(shard, number, ids, where):
            packed = b"".join(map(bytes.fromhex, page))
            count += int(await runs.once("dead", shard, run_id, verb, packed, delay))
    return count


async def edit_letter(
    runs: RunList, reader: DeadLetterReader, run_id: str, edit: LetterEdit, entry: QueuedTask
) -> EditFate:
    """Replace the task of a dead letter, unless it has changed or its new key is taken.

    It takes one call, or on a cluster one for each part if they are in several shards.
    """
    found = await reader.stored_letter(await runs.number(run_id), edit.letter)
    if found is None:
        return EditFate.CHANGED
    shard, order, stored = found
    shards = reader.shards
    old_id, new = bytes.fromhex(edit.letter.id), pack_task(entry)
    fresh = [new.step_group, new.host, new.priority, key_of(old_id), new.key, edit.by, edit.note]
    arguments: list[Argument] = [stored, order, pack(fresh), new.element]

    async def call(parts: str, on: int) -> int:
        return int(await runs.once("edit", on, run_id, parts, *arguments))

    moves_key, home = entry.id != old_id, home_of(new, shards)
    old_key, new_key = shard_of_id(old_id, shards), shard_of_id(entry.id, shards)
    if {shard, home, *((old_key, new_key) if moves_key else ())} == {shard}:
        return EDIT_FATES[await call("ktpf" if moves_key else "tp", shard)]
    if moves_key and not await call("k", new_key):
        return EditFate.DUPLICATE
    await call("p", home)
    is_taken = await call("t", shard) == 1
    if not is_taken:
        await call("u", home)
    if moves_key:
        await (call("f", old_key) if is_taken else call("g", new_key))
    return EditFate.EDITED if is_taken else EditFate.CHANGED
