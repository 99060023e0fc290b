"""Random histories that run on a backend and on the model, which must agree after every event."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, assert_never

from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace as alter

from shoal.core.model import (
    ZERO,
    DeadLetter,
    Done,
    Fate,
    Grant,
    HostStatus,
    Lease,
    Note,
    Release,
    RunSettings,
    Stats,
    Task,
    TaskStatus,
)
from shoal.queue.contract import LetterEdit, Queue
from tests.conformance import events
from tests.conformance.backends import Bench, VirtualClock
from tests.conformance.events import HOSTS, NOTE_KEYS, RUNS, TOPIC
from tests.conformance.helpers import HOUR, TEN, every
from tests.conformance.model import ModelQueue
from tests.conformance.state import State

# A call that takes longer may land on either side of a deadline: its history proves nothing.
STALL = TEN / 2


class Histories(RuleBasedStateMachine):
    """Two runs that share hosts, on a backend and on the model; each verb is called on both."""

    bench: ClassVar[Bench]
    loop: ClassVar[asyncio.AbstractEventLoop]

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.began = self.bench.clock.passed()
        self.model = ModelQueue(self.clock.now)
        self.leases: list[Lease] = []
        self.letters: dict[str, list[dict[str, DeadLetter]]] = {}  # of each run and queue, as last read
        self.stamps: dict[tuple[Queue, str], int] = {}
        self.sound = False

    @property
    def queues(self) -> tuple[Queue, ModelQueue]:
        return self.bench.queue, self.model

    @initialize(
        first=events.run_settings,
        second=events.run_settings,
        seeds=st.lists(events.tasks, min_size=5, max_size=15),
    )
    def start(self, first: RunSettings, second: RunSettings, seeds: list[Task]) -> None:
        self._go_on(self._start(dict(zip(RUNS, (first, second), strict=True)), seeds))

    # One rule and not one for each verb: Hypothesis would disable most of them in most examples.
    @rule(event=events.events)
    def happen(self, event: events.Event) -> None:
        self._go_on(self._happen(event))

    @invariant()
    def counts_agree(self) -> None:
        if self.sound:
            self._go_on(self._counts_agree())

    def teardown(self) -> None:
        if self.sound:
            self._go_on(self._end())

    def _go_on(self, event: Coroutine[Any, Any, None]) -> None:
        """Run an event; after a failure there is nothing more to compare."""
        self.sound = False
        self.loop.run_until_complete(event)
        self.sound = True

    async def _start(self, settings: dict[str, RunSettings], seeds: list[Task]) -> None:
        """Reset after the last example: its runs are purged, and its hosts are free."""
        for run in await self.bench.queue.runs():
            await self.bench.queue.purge(run.id)
        await self.bench.queue.forget("books")
        await self._free_hosts()
        await self._both("write_notes", TOPIC, dict.fromkeys(NOTE_KEYS))
        await self._wait(HOUR)
        for run_id, chosen in settings.items():
            for queue in self.queues:
                await queue.start_run("books", settings=chosen, run_id=run_id)
            await self._both("enqueue", run_id, seeds)

    async def _happen(self, event: events.Event) -> None:
        await self._keep_up()
        match event:
            case events.Enqueued(run_id, tasks):
                await self._both("enqueue", run_id, tasks)
            case events.Claimed(late, asked):
                await self._wait(late)
                await self._claim(asked)
            case events.Settled(late, outcomes):
                await self._wait(late)
                await self._settle(outcomes)
            case events.Extended(which, lease):
                await self._both("extend", [self._held(place) for place in which if self.leases], lease=lease)
            case events.WorkerExtended(late, worker_id, lease):
                await self._wait(late)
                await self._both("extend_worker", worker_id, lease=lease)
            case events.Abandoned(late, worker_id):
                await self._wait(late)
                await self._both("abandon", worker_id)
            case events.Waited(delta):
                await self._wait(delta)
            case events.Cleared(verb, run_id, which, where, delay):
                options = {"where": where} | ({"delay": delay} if verb == "replay" else {})
                await self._both(verb, run_id, self._ids(which), **options)
            case events.Edited():
                await self._edit(event)
            case events.RunChanged(run_id, limits):
                changed = [await queue.change_run(run_id, **limits) for queue in self.queues]
                assert changed[0].settings == changed[1].settings, f"the run has {changed[0].settings}"
            case events.RunSteered(verb, run_id):
                got, expected = [await getattr(queue, verb)(run_id) for queue in self.queues]
                assert got.state is expected.state, f"{verb} made the run {got.state}"
            case events.HostSteered(verb, host, duration):
                await self._both(verb, host, duration)
                await self._hosts_agree()
            case events.TasksListed(run_id):
                await self._reclaim()
                await self._tasks_agree(run_id)
            case events.NotesWritten() | events.NoteSwapped():
                await self._note(event)
            case _:
                assert_never(event)

    async def _edit(self, event: events.Edited) -> None:
        """Edit letters: those that are there, or as they were when they were last read."""
        await self._keep_up()
        there = [{one.id: one for one in await every(queue.dead(event.run_id))} for queue in self.queues]
        assert there[0].keys() == there[1].keys(), "the dead letters differ"
        known = there if event.is_current else self.letters.get(event.run_id, there)
        self.letters[event.run_id] = there
        ids = sorted(known[0])
        chosen = [ids[place % len(ids)] for place in event.which if ids]  # one may be edited twice
        fates = []
        for queue, letters in zip(self.queues, known, strict=True):
            edits = [
                LetterEdit(letter=old, task=alter(old.task, **event.fields), by="ann", note="x")
                for old in map(letters.__getitem__, chosen)
            ]
            fates.append(await queue.edit(event.run_id, edits))
            self._unless_stalled()
        assert fates[0] == fates[1], f"the edits became {fates[0]}, in the model {fates[1]}"

    async def _note(self, event: events.NoteEvent) -> None:
        match event:
            case events.NotesWritten(values, ttl):
                await self._both("write_notes", TOPIC, values, ttl=ttl)
                for queue in self.queues:
                    self._remember(queue, await queue.notes(TOPIC, list(values)))
            case events.NoteSwapped(key, value, right, ttl):
                await self._swap(key, value, right, ttl)
            case _:
                assert_never(event)
        await self._notes_agree()

    async def _swap(self, key: str, value: bytes | None, right: bool, ttl: timedelta | None) -> None:
        """Swap a note by its current stamp, or by the last known one."""
        done = []
        for queue in self.queues:
            note = (await queue.notes(TOPIC, [key])).get(key)
            stamp = self.stamps.get((queue, key)) if not right else note.stamp if note else None
            swapped = await queue.swap_note(TOPIC, key, value, stamp=stamp, ttl=ttl)
            done.append(swapped is not None)
        assert done[0] == done[1], f"the swap of {key!r} answered {done[0]}, the model {done[1]}"

    def _remember(self, queue: Queue, notes: dict[str, Note]) -> None:
        for key, note in notes.items():
            self.stamps[queue, key] = note.stamp

    async def _notes_agree(self) -> None:
        got, expected = [
            {key: (note.value, note.age // TEN) for key, note in (await queue.notes(TOPIC)).items()}
            for queue in self.queues
        ]
        assert got == expected, f"the notes are {got}, in the model {expected}"

    async def _tasks_agree(self, run_id: str) -> None:
        """Compare the states of tasks; a broker holds some waiting ones, and completed ones may be gone."""
        got, expected = [
            {status.id: _comparable(status) async for status in queue.tasks(run_id)} for queue in self.queues
        ]
        rows = self.model.data.rows
        bare = {one for one, row in rows.items() if row.state is State.COMPLETED and not row.yields}
        waiting = {one for one, row in rows.items() if row.state in (State.PENDING, State.DELAYED)}
        odd = {one: told for one, told in got.items() if told != expected.get(one)}
        assert not odd, f"tasks are {odd}, in the model { ({one: expected.get(one) for one in odd}) }"
        assert got.keys() >= expected.keys() - bare - waiting, "a task is not listed"

    async def _both(self, verb: str, *args: Any, **named: Any) -> Any:
        """Call a verb on the backend and on the model; the results must be equal."""
        await self._keep_up()
        got = await getattr(self.bench.queue, verb)(*args, **named)
        self._unless_stalled()
        expected = await getattr(self.model, verb)(*args, **named)
        assert got == expected, f"{verb} answered {got}, the model {expected}"
        return got

    async def _wait(self, delta: timedelta) -> None:
        if delta:
            await self.bench.clock.forward(delta)
            await self._keep_up()
            # Where the clock is the server's, the times in the store go back instead: of letters, too.
            self.letters.clear()

    async def _keep_up(self) -> None:
        """Move the model's clock to the backend's, which may run by itself."""
        await self.clock.forward(self._behind())

    def _unless_stalled(self) -> None:
        if self._behind() > STALL:
            raise UnsatisfiedAssumption

    def _behind(self) -> timedelta:
        return self.bench.clock.passed() - self.began - self.clock.passed()

    async def _claim(self, asked: dict[str, Any]) -> Grant:
        """Claim from the backend; the model must allow what it granted."""
        await self._keep_up()
        grant = await self.bench.queue.claim(**asked)
        self._unless_stalled()
        self.model.allow(grant, **asked)
        self.leases += grant.leases
        return grant

    async def _settle(self, outcomes: Sequence[tuple[int, Any]]) -> None:
        if not self.leases:
            return
        sent = [alter(told, lease=self._held(place)) for place, told in outcomes]
        await self._both("settle", sent)
        brakes = [(told.pause_host, told.slow_host) for _, told in outcomes if not isinstance(told, Release)]
        if any(brake != (None, None) for brake in brakes):
            await self._hosts_agree()

    def _held(self, place: int) -> Lease:
        """Pick a lease: mostly a live one, sometimes an ended one, or one whose task has a new lease."""
        live = [lease for lease in self.leases if self.model.data.held(lease)]
        over = [lease for lease in self.leases if lease not in live]
        taken = {lease.task_id for lease in live}
        zombies = [lease for lease in over if lease.task_id in taken]
        choice = live[-4:] * 2 + over[-1:] + zombies[-1:]
        return choice[place % len(choice)]

    def _ids(self, which: list[int] | None) -> list[str] | None:
        """Pick ids: mostly of dead letters, sometimes of other tasks."""
        if which is None:
            return None
        rows = self.model.data.rows.values()
        dead = [row.id for row in rows if row.state is State.DEAD]
        choice = dead * 2 + [row.id for row in rows][-3:]
        return [choice[place % len(choice)] for place in which if choice]

    async def _reclaim(self) -> None:
        await self._keep_up()
        got, expected = [await queue.reclaim() for queue in self.queues]
        self._unless_stalled()
        assert got == expected, f"reclaim answered {got}, the model {expected}"

    async def _counts_agree(self) -> None:
        await self._reclaim()
        for run_id in RUNS:
            await self._stats_agree(run_id)

    async def _stats_agree(self, run_id: str) -> Stats:
        """Compare the counts; a step or partition whose tasks were all edited away may be listed or not."""
        await self._keep_up()
        got, expected = [_with_tasks(await queue.stats(run_id)) for queue in self.queues]
        assert got == expected, f"stats answered {got}, the model {expected}"
        return got

    async def _hosts_agree(self) -> None:
        """Compare the status of hosts; the rest of a pause is rounded up to tens of seconds."""
        got, expected = [
            {
                (run_id, status.host): (status.delay, status.paused_for and -(-status.paused_for // TEN))
                for run_id in RUNS
                for status in await every(queue.hosts(run_id))
                if status.counts.tasks
            }
            for queue in self.queues
        ]
        assert got == expected, f"the hosts are {got}, in the model {expected}"

    async def _free_hosts(self) -> None:
        for host in HOSTS:
            await self._both("pause_host", host, ZERO)
            await self._both("slow_host", host, ZERO)

    async def _end(self) -> None:
        """Drain every run, and compare the final state."""
        await self._free_hosts()
        for run_id in RUNS:
            for queue in self.queues:
                await queue.resume(run_id)
            await self._drain(run_id)
        for run_id in RUNS:
            await self._results_agree(run_id)
            await self._tasks_agree(run_id)

    async def _drain(self, run_id: str) -> None:
        """Complete the remaining tasks; this must terminate."""
        asked = {"run_id": run_id, "worker_id": "w1", "limit": 50, "lease": TEN, "steps": None}
        for _ in range(200):
            await self._reclaim()
            grant = await self._claim(asked)
            fates = await self._both("settle", [Done(lease) for lease in grant.leases])
            assert set(fates) <= {Fate.ACCEPTED}, "a lease was stale as soon as it was granted"
            if grant.drained:
                break
            if not grant.leases:
                await self._wait(TEN)
        stats = await self._stats_agree(run_id)
        assert stats.remaining == 0, f"the run does not come to an end: {stats}"
        assert stats.tasks == len(list(self.model.data.of_run(run_id))), f"a task has vanished: {stats}"

    async def _results_agree(self, run_id: str) -> None:
        for verb, told in RESULTS.items():
            got, expected = [
                sorted(told(one) for one in await every(getattr(queue, verb)(run_id)) if _is_compared(one))
                for queue in self.queues
            ]
            assert got == expected, f"{verb} of the {run_id} run are {got}, in the model {expected}"


def _with_tasks(stats: Stats) -> Stats:
    """Return counts without the steps and partitions that have no task."""
    steps = {name: counts for name, counts in stats.steps.items() if counts.tasks}
    return replace(
        stats,
        steps=steps,
        partitions={name: counts for name, counts in stats.partitions.items() if counts.tasks},
    )


def _is_compared(result: Any) -> bool:
    return not isinstance(result, HostStatus) or result.counts.tasks > 0


def _comparable(status: TaskStatus) -> tuple[Any, ...]:
    yielded = status.items if status.state is State.COMPLETED else None
    holder = status.worker_id if status.state is State.LEASED else None
    return status.step, status.state, status.url, status.attempt, holder, yielded


RESULTS: dict[str, Any] = {
    "items": lambda item: (item.task_id, item.step, item.url or "", item.data),
    "rejects": lambda reject: (reject.task_id, reject.step, reject.url or "", reject.data, reject.reason),
    "dead": lambda dead: (
        dead.id,
        dead.attempts,
        dead.error,
        [(attempt.attempt, attempt.worker_id, attempt.error) for attempt in dead.history],
    ),
    "expired": lambda expired: (expired.id, expired.task.url or ""),
    "hosts": lambda status: (status.host, repr(status.counts)),
}
