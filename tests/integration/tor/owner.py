"""A process that owns a Tor, until it is killed: python -m … TORRC."""

import asyncio
import json
import sys
from pathlib import Path

from shoal.fetch.tor.tor import Tor


async def main(torrc: str) -> None:
    tor = await Tor.open(Path(torrc))
    while tor.pid is None:
        await asyncio.sleep(0.01)
    print(json.dumps({"tor": tor.pid, "folder": str(tor._folder.path)}), flush=True)
    await asyncio.sleep(600)


asyncio.run(main(sys.argv[1]))
