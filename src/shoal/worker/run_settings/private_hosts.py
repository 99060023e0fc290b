"""Private hosts that a run has tasks at and does not allow: commands that start workers must allow them."""

from collections.abc import Collection, Iterable

import msgspec

from shoal.queue.contract import SharedNotes
from shoal.worker.run_settings.stored import read_note

MAX_HOSTS = 20  # that are recorded of a run
_TOPIC = "private hosts not allowed"


async def note_private_hosts(queue: SharedNotes, run_id: str, hosts: Iterable[str]) -> None:
    """Record hosts whose pages are refused because they are private."""
    known = await _read(queue, run_id)
    all_hosts = list(dict.fromkeys([*known, *hosts]))[:MAX_HOSTS]
    if all_hosts != known:
        await queue.write_notes(_TOPIC, {run_id: msgspec.json.encode(all_hosts)})


async def private_hosts_to_allow(queue: SharedNotes, run_id: str) -> list[str]:
    """Return the recorded hosts, without those that the run allows meanwhile."""
    if not (hosts := await _read(queue, run_id)):
        return []
    allowed = (await read_note(queue, run_id)).settings.values.get("allow_private") or ()
    return [host for host in hosts if not _is_allowed(host, allowed)]


async def forget_private_hosts(queue: SharedNotes, run_id: str) -> None:
    """Remove what was recorded of a run."""
    await queue.write_notes(_TOPIC, {run_id: None})


def options_for(hosts: Iterable[str]) -> list[str]:
    """Return the options that allow these hosts."""
    return [word for host in hosts for word in ("--allow-private", host)]


async def _read(queue: SharedNotes, run_id: str) -> list[str]:
    note = (await queue.notes(_TOPIC, [run_id])).get(run_id)
    return msgspec.json.decode(note.value, type=list[str]) if note else []


def _is_allowed(host: str, allowed: Collection[str]) -> bool:
    return host in allowed or host.rpartition(":")[0] in allowed
