"""Which faults come when: decided by a seed, before anything runs."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KILLED, STOPPED, STORE, NETWORK, CONDITION = "killed", "stopped", "store", "network", "condition"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault; one that lasts is measured in leases."""

    family: str
    does: str
    lasts: tuple[float, float] = (0.0, 0.0)


KINDS = {
    "kill": Kind(KILLED, "kill -9 of a worker"),
    "crash": Kind(KILLED, "kill -9 of a launcher, and so of its supervisors; its workers notice, and exit"),
    "loss": Kind(KILLED, "kill -9 of a launcher and of all its processes at once"),
    "term": Kind(KILLED, "SIGTERM to a launcher, which finishes its tasks in progress"),
    "stop": Kind(STOPPED, "SIGSTOP of a worker for longer than its lease", (1.3, 2.5)),
    "deaf": Kind(STOPPED, "SIGSTOP of a launcher alone: its workers' leases are not extended", (1.3, 2.5)),
    "freeze": Kind(STOPPED, "SIGSTOP of a launcher and of all its processes: zombies", (1.3, 2.5)),
    "restart": Kind(STORE, "kill -9 of a server of the store, which is restarted", (0.1, 0.7)),
    "cut": Kind(NETWORK, "all connections to a server of the store are cut"),
    "lose": Kind(NETWORK, "a server of the store executes calls, and its replies are lost", (0.1, 0.4)),
    "silence": Kind(NETWORK, "a server of the store does not respond, and connections stay open", (0.5, 2.0)),
    "full": Kind(CONDITION, "Redis is above its `maxmemory`", (0.5, 2.0)),
    "readonly": Kind(CONDITION, "the store takes no writes", (0.5, 2.0)),
    "foreign": Kind(
        CONDITION,
        "another program keeps a writing transaction open: in another database of the PostgreSQL server, "
        "in the file of SQLite",
        (0.5, 2.0),
    ),
    "failover": Kind(
        CONDITION,
        "Redis or PostgreSQL is killed, and replaced by a replica that missed its last moments",
        (0.1, 0.4),
    ),
    "alarm": Kind(CONDITION, "RabbitMQ is short of memory and accepts no messages", (0.5, 2.0)),
}

PROCESSES = tuple(name for name, kind in KINDS.items() if kind.family in (KILLED, STOPPED))
SERVED = tuple(name for name, kind in KINDS.items() if kind.family is not CONDITION)
# SQLite is a file: there is no server to kill, and no network in between.
APPLY = {
    "sqlite": (*PROCESSES, "foreign"),
    "postgresql": (*SERVED, "readonly", "foreign", "failover"),
    "pgbouncer": (*SERVED, "readonly", "foreign"),
    "redis": (*SERVED, "full", "readonly", "failover"),
    "rabbitmq": (*SERVED, "full", "readonly", "failover", "alarm"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to come; `pick` says, out of [0, 1), which of those who are there it strikes."""

    after: float  # seconds since the one before was dealt
    kind: str
    pick: float
    lasts: float  # seconds

    def __str__(self) -> str:
        lasting = f" for {self.lasts:.1f} s" if self.lasts else ""
        return f"+{self.after:.1f} s {self.kind}{lasting}"


def kinds_of(queue: str, wanted: Sequence[str] = ()) -> list[str]:
    """Return the kinds that apply to a queue, all of them or those that are wanted."""
    return [kind for kind in APPLY[queue] if not wanted or kind in wanted]


def schedule(seed: int, kinds: Sequence[str], *, every: float, lease: float) -> Iterator[Fault]:
    """Yield faults without end, the same ones for the same arguments; each kind comes equally often."""
    chance = random.Random(seed)
    while kinds:
        deck = list(kinds)
        chance.shuffle(deck)
        for kind in deck:
            shortest, longest = KINDS[kind].lasts
            yield Fault(
                after=every * chance.uniform(0.5, 1.5),
                kind=kind,
                pick=chance.random(),
                lasts=lease * chance.uniform(shortest, longest),
            )
