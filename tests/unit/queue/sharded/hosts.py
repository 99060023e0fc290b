"""Hosts of each server of a queue, and tasks on them."""

from datetime import timedelta

from shoal.core.model import RunSettings, Task

NO_DELAY = RunSettings(host_delay=timedelta(0), per_host=1000)
NAMES = [f"h{number}.example" for number in range(40)]


def server(queue, name):
    """Return the server of a queue that has this name."""
    return next(member for member in queue._members if member.name == name)


def hosts_of(queue, name):
    """Return hosts that a server owns."""
    return [host for host in NAMES if queue._members.owner(host).name == name]


def page(host, number=1, **fields):
    return Task(url=f"https://{host}/{number}", **fields)


async def every(stream):
    return [row async for row in stream]
