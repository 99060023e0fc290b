"""What a URL costs that waits: the growth of the servers' memory, over many of them."""

import asyncio

from tools.bench.loading import load
from tools.bench.report import Figure, Figures, at_most
from tools.bench.scale import Scale
from tools.bench.stores import Store
from tools.bench.talk import say

HOSTS = 2_000
PER_URL = {"redis": at_most(150)}  # bytes
MANY, IN_ALL = 2_000_000, {"redis": at_most(400)}  # URLs, MB
SETTLED = 1.0  # seconds in which a server lets go of what a load needed


async def memory(store: Store, scale: Scale) -> Figures:
    """Make a run of pending URLs and look at the servers before and after."""
    say(f"memory of {scale.urls:,} URLs of {HOSTS:,} hosts")
    async with store.room() as address:
        before = store.memory()
        await load(store, address, scale.urls, hosts=HOSTS)
        await asyncio.sleep(SETTLED)
        after = store.memory()
    for server in after:
        grown = after[server] - before[server]
        name = f"{store.name}, {scale.urls:,} URLs pending, {server}'s memory"
        bars = PER_URL if store.name == server else {}
        yield Figure(f"{name} per URL", grown / scale.urls, "bytes", bars.get(server))
        in_all = IN_ALL if store.name == server and scale.urls >= MANY else {}
        yield Figure(f"{name} in all", after[server] / 1e6, "MB", in_all.get(server))
