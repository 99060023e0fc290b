"""Paging: links from one page of a list or manual to the next do not make a crawl deeper."""

from collections.abc import Iterable

from shoal.core.model import Task

MAX_LINKS = 2  # to the page before and the page after


def is_paging(tasks: Iterable[Task], parent: Task) -> bool:
    """Tell whether a page follows so few links to its own step that they form a chain, and no tree."""
    targets = set()
    for task in tasks:
        if task.step == parent.step:
            targets.add(name_of(task))
            if len(targets) > MAX_LINKS:
                return False
    return bool(targets)


def paging_depth(parent: Task) -> int:
    """Return the depth of the next page of a chain: that of its parent, or 1 if that is a seed."""
    return max(1, parent.depth)


def name_of(task: Task) -> str:
    """Return what tells the tasks of a chain apart."""
    if task.key is not None:
        return task.key
    post = task.request.post if task.request else None
    return f"{task.url} {post!r} {dict(task.payload)}" if post or task.payload else task.url or ""
