"""How much of everything: enough for a look, for an opinion, or for the record."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of every scenario, in tasks unless said otherwise."""

    name: str
    enqueue: int
    settle: int
    claimers: tuple[int, ...] = (1, 2, 8)
    claims: int  # timed claims per cell
    small: int = 10_000  # the cell that others are compared with
    pending: tuple[int, ...]
    one_host: int
    # Tasks and hosts. As many tasks to a host as in the small cell: with fewer, a claim asks more hosts.
    many_hosts: tuple[int, int]
    blocked: tuple[int, int]
    churn: int  # claimed and settled while a transaction is open
    urls: int  # pending when memory is looked at
    peer_seconds: float
    peer_rounds: int
    peer_tries: int = 2  # heats that may be run for one that lasts long enough
    peer_trials: bool = True  # try every way to run a peer, else the likeliest
    peer_workers: tuple[int, ...] = (1, 2)
    stream: int = 0


QUICK = Scale(
    name="quick",
    enqueue=20_000,
    settle=10_000,
    claimers=(1, 2),
    claims=40,
    small=5_000,
    pending=(20_000,),
    one_host=10_000,
    many_hosts=(15_000, 3_000),
    blocked=(15_000, 3_000),
    churn=5_000,
    urls=50_000,
    peer_seconds=1,
    peer_rounds=1,
    peer_tries=1,
    peer_trials=False,
    peer_workers=(1,),
)
DEFAULT = Scale(
    name="default",
    enqueue=300_000,
    settle=100_000,
    claims=300,
    pending=(1_000_000,),
    one_host=100_000,
    many_hosts=(200_000, 20_000),
    blocked=(200_000, 20_000),
    churn=100_000,
    urls=200_000,
    peer_seconds=3,
    peer_rounds=3,
)
BIG = replace(
    DEFAULT,
    name="big",
    claims=500,
    pending=(1_000_000, 10_000_000),
    one_host=1_000_000,
    many_hosts=(1_000_000, 100_000),
    blocked=(1_000_000, 100_000),
    urls=2_000_000,
    stream=5_000_000,
)
