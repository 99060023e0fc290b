"""What the clients of a history did and were told; the clock of this machine is the store's too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shoal.core.model import ZERO, Fate, Lease, Outcome, Run, Stats
from shoal.queue.intake import Intake


@dataclass(eq=False, slots=True)
class Settlement:
    """A call that was to end a lease."""

    outcome: Outcome
    sent: datetime
    answered: datetime
    fate: Fate
    has_asked: bool  # whether the client has sent its request, whatever the outcome says


@dataclass(eq=False, slots=True)
class Extension:
    """A call that was to extend a lease."""

    sent: datetime
    answered: datetime
    lease: timedelta
    fate: Fate


@dataclass(eq=False, slots=True)
class Holding:
    """A lease as one client had it, from the claim to its end."""

    lease: Lease
    worker: str
    host: str
    claim: int  # which one; all leases of one claim share it
    claimed_at: datetime  # by the store's clock; durations count from it
    earliest: datetime  # the moment at which the store decided lies in between
    latest: datetime
    answered: datetime  # when the client had it
    slack: timedelta = ZERO  # how far `claimed_at` may be off
    listed: datetime | None = None  # its start as the store lists it, where that was looked up
    settlements: list[Settlement] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    abandoned: tuple[datetime, datetime] | None = None  # sent and answered

    @property
    def start(self) -> datetime:
        return self.listed or self.claimed_at + self.lease.start_in

    @property
    def start_slack(self) -> timedelta:
        """How far the start may be off."""
        return ZERO if self.listed else self.slack

    @property
    def accepted(self) -> Settlement | None:
        """The settlement that ended it, if one did."""
        return next((one for one in self.settlements if one.fate is Fate.ACCEPTED), None)

    @property
    def live_until(self) -> datetime:
        """Until when it was live for certain; a store may take it back later than its deadline."""
        if self.accepted:
            return self.accepted.sent
        extended = [one.sent + one.lease for one in self.extensions if one.fate is Fate.ACCEPTED]
        ends = [*extended[-1:]] or [self.claimed_at + self.lease.deadline_in]
        return min([*ends, *(moments[0] for moments in [self.abandoned] if moments)])

    @property
    def is_used(self) -> bool:
        """Whether its start counts: the request was sent, or nobody has taken the start back."""
        ending = self.accepted
        return ending is None or ending.outcome.asked or ending.has_asked


@dataclass(frozen=True, slots=True)
class Entered:
    """A task that was sent to the queue: by a producer, or as a follow-up with an accepted Done."""

    run_id: str
    task_id: str
    sent: datetime
    answered: datetime | None = None  # None: before the client was told
    delay: timedelta = ZERO


@dataclass(frozen=True, slots=True)
class Failover:
    """A replica took the place of its primary: what the store wrote between `cut_by` and `moved` is lost."""

    synced: datetime  # what was written before this, the replica has
    cut_by: datetime  # what was written after this, the replica has not
    moved: datetime  # the old primary is dead, and the address is about to lead to the new one


@dataclass(slots=True)
class End:
    """What the store says of a run when it is drained."""

    stats: Stats
    items: Sequence[tuple[str, int]]  # task and token, as their Done wrote it
    dead: Sequence[str]


@dataclass
class Record:
    """One history."""

    runs: Mapping[str, Run]
    holdings: list[Holding] = field(default_factory=list)
    entered: list[Entered] = field(default_factory=list)
    added: dict[str, int] = field(default_factory=dict)  # by run: what the reports of `enqueue` sum up to
    complaints: list[str] = field(default_factory=list)  # of what was wrong as soon as it was told
    ends: dict[str, End] = field(default_factory=dict)
    is_drained: bool = False
    failovers: list[Failover] = field(default_factory=list)  # in the order in which they happened

    def intake(self, run_id: str) -> Intake:
        """Return what gives the tasks of a run their ids."""
        return Intake(run_id, self.runs[run_id].settings)
