"""The processes of a browser and their memory, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
MAX_PROCESSES = 1_000  # processes of one browser


def process_tree(pid: int) -> list[int]:
    """Return a process and all its descendants; empty if it is gone."""
    found: list[int] = []
    unseen = [pid]
    while unseen and len(found) < MAX_PROCESSES:
        one = unseen.pop()
        if Path(f"/proc/{one}").exists():
            found.append(one)
            unseen.extend(_children(one))
    return found


def memory_of(pid: int) -> int:
    """Return the private memory of a process and its descendants in bytes."""
    return sum(map(_private_bytes, process_tree(pid)))


def largest_page(pid: int) -> tuple[int, int]:
    """Return the renderer process that uses most memory, and its bytes; zeros without one."""
    sizes = {one: _private_bytes(one) for one in process_tree(pid) if _is_renderer(one)}
    largest = max(sizes, key=lambda one: sizes[one], default=0)
    return largest, sizes.get(largest, 0)


def _is_renderer(pid: int) -> bool:
    try:
        return b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _children(pid: int) -> Iterator[int]:
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text().split())
    except OSError:
        return


def _private_bytes(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE
