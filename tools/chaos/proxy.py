"""A proxy before a server of the store, in a process of its own: stopped, it holds all connections silent.

Usage: python -m tools.chaos.proxy PORT. It prints its own port; then it obeys each line on stdin.
"""

import asyncio
import sys
from typing import ClassVar

from tests.servers.lossy_proxy import LossyProxy

CUT, LOSE, HEAR, LEAD = "cut", "lose", "hear", "lead"


class Talk:
    """A protocol of which nothing need be known: each answer is passed on, or lost with its connection."""

    loses: ClassVar[bool] = False

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        return False

    def answered(self, data: bytes) -> bool:
        if self.loses:
            raise ConnectionResetError
        return False


async def serve(port: int) -> None:
    """Pass everything on until stdin ends, but for what is to be lost or cut."""
    async with LossyProxy(port, Talk) as proxy:
        print(proxy.port, flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            word, *places = line.split()
            if word == LEAD:
                proxy.lead_to(int(places[0]))
            Talk.loses = word == LOSE
            if word in (CUT, LEAD):
                await proxy.cut()
            print("obeyed", flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
