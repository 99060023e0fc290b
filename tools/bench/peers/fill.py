"""Runs among the peers: puts the jobs into the queue of one of them, and prints how long that took."""

import json
from importlib import import_module

from tools.bench.pages import HOSTS, url
from tools.bench.peers.order import order


def main() -> None:
    """Carry out the order."""
    what = order()
    peer = import_module(f"tools.bench.peers.{what.peer}_jobs")
    seconds = peer.fill([url(number, HOSTS) for number in range(what.jobs)])
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
