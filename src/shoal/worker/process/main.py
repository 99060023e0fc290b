"""The entry point of a worker process, which the fork server has forked."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import uvloop
from msgspec.structs import replace

from shoal.core.commands import commands_use
from shoal.core.errors import InvalidSetting, ShoalError
from shoal.core.events import LOG, Event, Level
from shoal.core.model import Run
from shoal.core.redact import redactor
from shoal.core.version import VERSION
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.queue.run_args import stored_args
from shoal.scrape.load import load_scraper
from shoal.scrape.scraper import Scraper
from shoal.worker.attempts import ProcessorTools
from shoal.worker.failures.brake import PrivateHostCheck
from shoal.worker.failures.tracebacks import TracebackFormatter, refuse_breakpoints
from shoal.worker.fetchers.chain import (
    open_downloads,
    open_egress,
    open_failed_pages,
    open_fetchers,
    open_revisits,
    open_robots,
)
from shoal.worker.hook_calls import open_resources
from shoal.worker.ipc.protocol import (
    SETTINGS_CHANGED,
    STOP,
    WAKE,
    ExitReason,
    LoggedEvent,
    SupervisorChannel,
    WorkerConfig,
    WorkerEnded,
    WorkerFailed,
    read_config,
)
from shoal.worker.ipc.step_markers import CELLS, StepMarkers
from shoal.worker.ondemand import CallListener
from shoal.worker.process.blocked_loop import BlockedLoopWatch
from shoal.worker.run_settings import (
    SUPERVISED_INTERVAL,
    SettingsFollower,
    SettingsNote,
    live_part,
    merged,
    read_note,
)
from shoal.worker.scheduler import Stop
from shoal.worker.secrets import all_secrets
from shoal.worker.telemetry.events import EventReporter, forward_logs
from shoal.worker.telemetry.observer import MetricsObserver, Observer
from shoal.worker.telemetry.tracing import Tracing, open_provider
from shoal.worker.turns import HostTurns
from shoal.worker.worker import Worker

log = logging.getLogger(__name__)
USER_AGENT = f"shoal/{VERSION}"
BEAT_INTERVAL = timedelta(seconds=0.5)
GARBAGE = (700, 10, 10)  # Python's thresholds: the tree of a page may be large, and is freed soon


def main(descriptor: int, markers: int) -> NoReturn:
    """Run the worker that the supervisor configures; both arguments are file descriptors that it passes."""
    sock = socket.socket(fileno=descriptor)
    # The terminal sends Ctrl-C to the whole process group; only the supervisor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # likewise, when the terminal is closed
    channel = SupervisorChannel(sock)
    _exit_on_sigterm(channel)
    allow_many_files()
    refuse_breakpoints()
    try:
        config = read_config(sock)
        # Unlike `uvloop.run` this does not wait for threads, and one of the user's functions may hang in one.
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        runner.run(work(config, channel, sock, StepMarkers(markers)))
    except ShoalError as error:
        channel.send(WorkerFailed(str(error)))
        code = 1
    except EOFError:
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also if its launcher was killed, and nothing reads them
        # A step that hangs in a thread would keep the interpreter from exiting.
        os._exit(code)


async def work(
    config: WorkerConfig, channel: SupervisorChannel, sock: socket.socket, markers: StepMarkers
) -> None:
    """Work on the run until it is drained or the supervisor stops the worker; report which."""
    loaded = load_scraper(config.scraper)
    async with AsyncExitStack() as stack:
        stack.enter_context(commands_use(config.queue_option, config.run_id))
        queue = await stack.enter_async_context(open_queue(config.queue))
        known = await read_note(queue, config.run_id)
        run = await queue.run(config.run_id)
        # They may have changed since this worker's supervisor was started.
        scraper = loaded.replace(**merged(config.overrides, live_part(known.settings.values)))
        if scraper.declared_args:
            # The scraper of the user's module gets them too: its login function may read them there.
            args = scraper.declared_args.restore(await stored_args(queue, run.id) or {})
            loaded.args = scraper.args = args
        await stack.enter_async_context(open_resources(scraper, queue, run, partial(report_warning, channel)))
        beat_forever(markers)
        threads = ThreadPoolExecutor(CELLS - 1, thread_name_prefix="step")
        redact = redactor(all_secrets(config.queue, scraper.settings, os.environ))
        tools = ProcessorTools({}, None, threads, markers, redact=redact)
        worker, follower = await open_worker(stack, config, channel, queue, run, scraper, tools, known)
        # Loaded modules stay in memory: scanning them in every collection would delay starts that are due.
        gc.set_threshold(*GARBAGE)
        gc.collect()
        gc.freeze()
        worker.start(follower.run(SUPERVISED_INTERVAL), "following the run's settings")
        handle_messages(sock, worker.stop, {WAKE: worker.wake_up, SETTINGS_CHANGED: follower.check_soon})
        watch = BlockedLoopWatch(
            markers,
            worker.started_lease,
            lambda event: channel.send(LoggedEvent(event)),
            TracebackFormatter.for_code(scraper.first.filename, redact),
            scraper.hooks,
        )
        watch.start()
        stack.callback(watch.stop)
        if config.listening:
            listener = CallListener(
                queue,
                run,
                worker,
                worker_id=config.worker_id,
                listening=config.listening,
                seed_step=scraper.seed_step,
                once=[name for name, step in scraper.steps.items() if scraper.at_most_once(step)],
            )
            await stack.enter_async_context(listener)
        # Reported before anything is closed, because that may hang, and nothing is leased any more.
        channel.send(WorkerEnded(await worker.run(), scraper.hooks.finish_timeout))


async def open_worker(
    stack: AsyncExitStack,
    config: WorkerConfig,
    channel: SupervisorChannel,
    queue: Queue,
    run: Run,
    scraper: Scraper,
    tools: ProcessorTools,
    known: SettingsNote,
) -> tuple[Worker, SettingsFollower]:
    """Return the worker that a configuration describes, and what follows the settings of its run.

    `tools` has what the caller decides: threads, markers, observers, and what to call for each error. `known`
    are the settings that the scraper has already. The stack closes what the worker works with.
    """
    settings, egress = scraper.settings, open_egress(scraper.settings)
    agent = settings.user_agent or USER_AGENT
    metrics = MetricsObserver(scraper.steps) if config.measure else None
    fetchers = await open_fetchers(
        settings,
        queue,
        user_agent=agent,
        run_id=run.id,
        worker_id=config.worker_id,
        count_proxy=metrics.measures.count_proxy if metrics else None,
        login=scraper.login_function,
        wanted=scraper.fetchers,
        once=scraper.has_at_most_once,
        egress=egress,
    )
    for fetcher in fetchers.values():
        stack.push_async_callback(fetcher.close)
    revisits = open_revisits(settings, queue, run)
    if revisits:
        stack.push_async_callback(revisits.close)
    robots = open_robots(settings, queue, fetchers["http"], user_agent=agent)
    if robots:
        stack.push_async_callback(robots.close)
    secrets = all_secrets(config.queue, settings, os.environ)
    failed_pages = open_failed_pages(settings, queue, run, secrets)
    if failed_pages:
        stack.push_async_callback(failed_pages.close)
    downloads = await open_downloads(scraper, queue, run)
    stack.push_async_callback(downloads.close)
    worker = Worker(
        queue,
        run,
        scraper,
        replace(
            tools,
            fetchers=fetchers,
            robots=robots,
            revisits=revisits,
            redact=redactor(secrets),
            observers=(
                *tools.observers,
                *scraper.observers,
                *open_observers(stack, config, channel, metrics),
            ),
            failed_pages=failed_pages,
            downloads=downloads,
            # One that handles calls claims nothing, so it stops no run.
            private=None if config.listening else PrivateHostCheck(queue, run.id, egress),
            turns=None if settings.playback else HostTurns(queue),
        ),
        config,
        channel,
    )
    worker.tally.measures = metrics.measures if metrics else None

    async def change_settings(run: Run, changes: Mapping[str, Any]) -> None:
        try:
            await worker.change_settings(run, changes)
            egress.set_allowed(scraper.settings.allow_private)
        except InvalidSetting as error:
            log.warning("The settings of the run were changed, but not for this scraper: %s", error)
        else:
            log.info("Settings of the run were changed: %s", ", ".join(changes))

    return worker, SettingsFollower(queue, run.id, known, change_settings)


def open_observers(
    stack: AsyncExitStack, config: WorkerConfig, channel: SupervisorChannel, metrics: MetricsObserver | None
) -> list[Observer]:
    """Return the observers for logs, metrics and traces; the stack flushes what is not sent yet."""
    observers: list[Observer] = [metrics] if metrics else []
    if config.log_level < Level.OFF:

        def send(event: Event) -> None:
            channel.send(LoggedEvent(event))

        reporter = EventReporter(send, config.log_level)
        forward_logs(reporter.forward, config.log_level)
        observers.append(reporter)
    if config.trace:
        provider = open_provider()
        stack.callback(provider.shutdown)
        observers.append(Tracing(provider.get_tracer("shoal"), config.run_id, config.worker_id))
    return observers


def report_warning(channel: SupervisorChannel, text: str) -> None:
    """Log a warning, and show it where the run was started; safe in any thread."""
    fields = {"message": text, "logger": __name__}
    channel.send(LoggedEvent(Event(at=time.time(), level=Level.WARNING, name=LOG, fields=fields)))


def beat_forever(markers: StepMarkers) -> None:
    """Signal to the supervisor periodically that the event loop runs."""
    markers.beat()
    asyncio.get_running_loop().call_later(BEAT_INTERVAL.total_seconds(), beat_forever, markers)


def _exit_on_sigterm(channel: SupervisorChannel) -> None:
    """Exit on a SIGTERM that comes, or came, before there is anything to finish: that is a regular end."""

    def leave(*_: object) -> NoReturn:
        channel.send(WorkerEnded(ExitReason.STOPPED))
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def handle_messages(
    sock: socket.socket, stop: Callable[[Stop], None], others: Mapping[bytes, Callable[[], None]]
) -> None:
    """Stop on the supervisor's request or death and on SIGTERM: first finish, the second time release.

    Its `others` are single bytes, and what to call for each.
    """
    loop = asyncio.get_running_loop()
    modes = iter([Stop.FINISH])

    def stop_next() -> None:
        stop(next(modes, Stop.RELEASE))

    def read_stops() -> None:
        try:
            received = sock.recv(64)
        except OSError:  # reset, because the supervisor died with messages unread: as good as its end
            received = b""
        if not received:
            loop.remove_reader(sock.fileno())
        for message, handle in others.items():
            if message in received:
                handle()
        for _ in range((received or STOP).count(STOP)):
            stop_next()

    loop.add_signal_handler(signal.SIGTERM, stop_next)
    loop.add_reader(sock.fileno(), read_stops)


def allow_many_files() -> None:
    """Raise the limit of open files as far as this user may: every fetch needs a socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
