"""The processes of a browser and what memory they take, read from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
MOST = 1_000  # processes that one browser is believed to have


def family(pid: int) -> list[int]:
    """Return a process and all its descendants; nothing if it is gone."""
    found: list[int] = []
    unseen = [pid]
    while unseen and len(found) < MOST:
        one = unseen.pop()
        if Path(f"/proc/{one}").exists():
            found.append(one)
            unseen.extend(_children(one))
    return found


def memory_of(pid: int) -> int:
    """Return the bytes that a process and its descendants have for themselves."""
    return sum(map(_own, family(pid)))


def largest_page(pid: int) -> tuple[int, int]:
    """Return the process of pages that takes most of a browser's memory, and its bytes; zeros without one."""
    sizes = {one: _own(one) for one in family(pid) if _is_of_pages(one)}
    largest = max(sizes, key=lambda one: sizes[one], default=0)
    return largest, sizes.get(largest, 0)


def _is_of_pages(pid: int) -> bool:
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


def _own(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE
