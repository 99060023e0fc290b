"""The life of one worker, in a process of its own that the nursery has split off."""

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from typing import NoReturn

import uvloop

from shoal.core.errors import ShoalError
from shoal.core.redact import redactor
from shoal.core.version import VERSION
from shoal.queue.open import open_queue
from shoal.scrape.load import load_scraper
from shoal.worker.fetching import open_fetchers, open_revisits, open_robots
from shoal.worker.handling import Tools
from shoal.worker.hiding import all_secrets
from shoal.worker.line import STOP, Ended, Failed, Line, Order, read_order
from shoal.worker.lookout import Lookout
from shoal.worker.marks import CELLS, Marks
from shoal.worker.oncall import OnCall
from shoal.worker.share import Share
from shoal.worker.worker import Stop, Worker

USER_AGENT = f"shoal/{VERSION}"
ROOM_FOR_FILES = 4_096
PULSE = 0.5  # seconds


def main(descriptor: int, marks: int) -> NoReturn:
    """Obey the order that comes down the line; both arguments are descriptors that the keeper hands down."""
    sock = socket.socket(fileno=descriptor)
    # The terminal sends Ctrl-C to the whole group; only the keeper decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line(sock)
    _may_leave_at_once(line)
    allow_many_files()
    try:
        order = read_order(sock)
        # Unlike `uvloop.run` this does not wait for threads, and one of the user's functions may hang in one.
        asyncio.Runner(loop_factory=uvloop.new_event_loop).run(work(order, line, sock, Marks(marks)))
    except ShoalError as error:
        line.tell(Failed(str(error)))
        code = 1
    except EOFError:
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    # A step that hangs in a thread would keep the interpreter from ending.
    os._exit(code)


async def work(order: Order, line: Line, sock: socket.socket, marks: Marks) -> None:
    """Work on the run until it is drained, or the keeper says stop; tell it which."""
    scraper = load_scraper(order.scraper).replace(**order.overrides)
    beat_on(marks)
    settings = scraper.settings
    agent = settings.user_agent or USER_AGENT
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(open_queue(order.queue))
        run = await queue.run(order.run_id)
        fetchers = await open_fetchers(
            settings,
            queue,
            user_agent=agent,
            run_id=run.id,
            login=scraper.login_function,
            wanted={step.fetch for step in scraper.steps.values()},
            once=scraper.has_at_most_once,
        )
        for fetcher in fetchers.values():
            stack.push_async_callback(fetcher.close)
        revisits = open_revisits(settings, queue, run)
        if revisits:
            stack.push_async_callback(revisits.close)
        robots = open_robots(settings, queue, fetchers["http"], user_agent=agent)
        if robots:
            stack.push_async_callback(robots.close)
        lookout = Lookout(order, line, scraper.steps)
        stack.callback(lookout.close)
        threads = ThreadPoolExecutor(CELLS - 1, thread_name_prefix="step")
        worker = Worker(
            lookout.queue(queue),
            run,
            scraper,
            Tools(
                {name: lookout.fetcher(fetcher) for name, fetcher in fetchers.items()},
                robots,
                threads,
                lookout.marks(marks),
                revisits,
                redactor(all_secrets(order.queue, settings, os.environ)),
                lookout.on_begin,
            ),
            worker_id=order.worker_id,
            lease=order.lease,
            at_once=order.at_once,
            slow_requests=order.slow_requests,
            batch=order.batch,
            memory=order.memory,
            steps=order.steps,
            partitions=order.partitions,
            share=Share(queue, run.id, order.worker_id, order.sharing) if order.sharing else None,
            line=line,
            standby=order.listening is not None,
        )
        worker.tally.measures = lookout.measures
        listen(sock, worker.stop)
        # What was loaded stays: looking through it again and again would hold up starts that are due.
        gc.collect()
        gc.freeze()
        if order.listening:
            on_call = OnCall(queue, run, worker, worker_id=order.worker_id, listening=order.listening)
            await stack.enter_async_context(on_call)
        # Told before anything is closed, for that may hang, and nothing is leased any more.
        line.tell(Ended(await worker.run()))


def beat_on(marks: Marks) -> None:
    """Tell the keeper again and again that the event loop turns."""
    marks.beat()
    asyncio.get_running_loop().call_later(PULSE, beat_on, marks)


def _may_leave_at_once(line: Line) -> None:
    """Obey a SIGTERM that comes, or came, before there is anything to finish: that is no death."""

    def leave(*_: object) -> NoReturn:
        line.tell(Ended("stopped"))
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def listen(sock: socket.socket, stop: Callable[[Stop], None]) -> None:
    """Obey the keeper, its end, and SIGTERM: finish what is in hand, and at the second sign hand it back."""
    loop = asyncio.get_running_loop()
    signs = iter([Stop.FINISH])

    def obey() -> None:
        stop(next(signs, Stop.RELEASE))

    def heard() -> None:
        said = sock.recv(64)
        if not said:
            loop.remove_reader(sock.fileno())
        for _ in said or STOP:
            obey()

    loop.add_signal_handler(signal.SIGTERM, obey)
    loop.add_reader(sock.fileno(), heard)


def allow_many_files() -> None:
    """Raise the limit of open files as far as this user may: every fetch needs a socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
        _make_room_for_files()


def _make_room_for_files() -> None:
    # Linux doubles a process's table of files as it fills. Once threads share it, whoever opens the file that
    # no longer fits waits for all processors, some 8 ms, and with it every request that is due.
    last = min(ROOM_FOR_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0]) - 1
    os.close(os.dup2(0, last, inheritable=False))
