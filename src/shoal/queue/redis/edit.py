"""The edit of a dead letter: one call, or on a cluster one for each part if they are in several shards."""

from collections.abc import Awaitable, Callable
from typing import Any

from shoal.queue.contract import EditFate, LetterEdit
from shoal.queue.intake import QueuedTask
from shoal.queue.redis.read import RedisReader
from shoal.queue.redis.server import Argument
from shoal.queue.redis.wire import home_of, key_of, pack, parcel, shard_of_id

FATES = {1: EditFate.EDITED, 0: EditFate.DUPLICATE, -1: EditFate.CHANGED}
RunScript = Callable[..., Awaitable[Any]]  # script, shard, run id, arguments


async def edit_letter(
    run_script: RunScript,
    reader: RedisReader,
    number: int,
    run_id: str,
    edit: LetterEdit,
    entry: QueuedTask,
    shards: int,
) -> EditFate:
    """Replace the task of a dead letter, unless it has changed or its new key is taken."""
    found = await reader.stored_letter(number, edit.letter)
    if found is None:
        return EditFate.CHANGED
    shard, order, stored = found
    old_id, new = bytes.fromhex(edit.letter.id), parcel(entry)
    fresh = [new.section, new.host, new.priority, key_of(old_id), new.key, edit.by, edit.note]
    arguments: list[Argument] = [stored, order, pack(fresh), new.element]

    async def call(parts: str, on: int) -> int:
        return int(await run_script("edit", on, run_id, parts, *arguments))

    moves_key, home = entry.id != old_id, home_of(new, shards)
    old_key, new_key = shard_of_id(old_id, shards), shard_of_id(entry.id, shards)
    if {shard, home, *((old_key, new_key) if moves_key else ())} == {shard}:
        return FATES[await call("ktpf" if moves_key else "tp", shard)]
    if moves_key and not await call("k", new_key):
        return EditFate.DUPLICATE
    await call("p", home)
    is_taken = await call("t", shard) == 1
    if not is_taken:
        await call("u", home)
    if moves_key:
        await (call("f", old_key) if is_taken else call("g", new_key))
    return EditFate.EDITED if is_taken else EditFate.CHANGED
