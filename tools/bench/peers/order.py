"""What a peer is told, in a variable of its environment; needs nothing installed."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.bench.peers.tally import Tally

VARIABLE = "BENCH_ORDER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Where the jobs are, what their queue is called, who does them, and where they are counted."""

    peer: str
    address: str
    queue: str
    folder: str
    jobs: int
    workers: int
    choice: Mapping[str, Any] = field(default_factory=dict)

    @property
    def on_redis(self) -> bool:
        """Tell whether the jobs are in Redis, else they are in RabbitMQ."""
        return self.address.startswith("redis")

    def environment(self) -> dict[str, str]:
        """Return what the peer's processes must find in their environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    def tally(self) -> Tally:
        """Return the counter that every job calls."""
        return Tally(Path(self.folder), self.workers)


def order() -> Order:
    """Return the order that this process was given."""
    return Order(**json.loads(os.environ[VARIABLE]))
