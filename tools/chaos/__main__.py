"""Break the processes of a crawl while it goes on, and judge what became of it."""

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.values import read_positive_duration
from tests.servers.process import ServerFailed, ServerMissing
from tools.bench.report import machine
from tools.bench.talk import say
from tools.chaos.campaign import Campaign, CommandFailed, Plan
from tools.chaos.history import Manners, Strike
from tools.chaos.launchers import WORKERS
from tools.chaos.report import Result, as_json, complaints, failed, result, table, write_page
from tools.chaos.schedule import APPLY, KINDS, kinds_of
from tools.chaos.site import Site

HOSTS, LAUNCHERS = 24, 2
SHARE = 0.6  # of what the hosts allow; the rest is lost to faults, troubles and slow pages


def main() -> int:
    """Carry the campaigns out that the command line asks for."""
    options = read_options(sys.argv[1:])
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    results = []
    try:
        for queue in options.queue or APPLY:
            results.append(_campaign(_plan(queue, options), options.keep))
    except KeyboardInterrupt:
        say("interrupted; this is what was judged so far")
        return 130
    finally:
        _report(results, options)
    return 1 if any(one.broken for one in results) else 0


def _campaign(plan: Plan, keep: Path | None) -> Result:
    say(f"{plan.queue}: {plan.site.pages:,} pages, seed {plan.seed}. First faults: {plan.preview()}")

    def on_strike(strike: Strike, pages: int) -> None:
        say(f"{plan.queue}  {pages:>6,} pages  {strike.kind:8} {strike.target}")

    with _folder(plan.queue, keep) as folder:
        try:
            history = Campaign(plan, folder, on_strike).run()
        except (CommandFailed, ServerFailed) as error:
            return failed(plan.queue, plan.seed, str(error))
        (folder / "history.json").write_bytes(msgspec.json.encode(history))
    judged = result(plan.queue, plan.seed, history)
    say(f"{plan.queue}: {judged.verdict}")
    return judged


@contextmanager
def _folder(queue: str, keep: Path | None) -> Iterator[Path]:
    """Give a campaign a folder, which stays if it is to be kept."""
    if keep:
        made = keep.resolve() / f"{queue}-{datetime.now(UTC):%H%M%S}"
        made.mkdir(parents=True)
        yield made
        return
    with tempfile.TemporaryDirectory(prefix="shoal-chaos-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _report(results: Sequence[Result], options: argparse.Namespace) -> None:
    if not results:
        return
    about = _about(options)
    print(as_json(results, about) if options.json else table(results), flush=True)
    for one in results:
        if one.broken:
            print(complaints(one), file=sys.stderr, flush=True)
    if options.record:
        write_page(results, about)


def _about(options: argparse.Namespace) -> dict[str, Any]:
    manners = Manners()
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpus": machine()["cpus"],
        "command": command(options),
        "seed": options.seed,
        "hosts": options.hosts,
        "launchers": options.launchers,
        "workers": WORKERS,
        "delay": f"{manners.delay:g} s",
        "per_host": manners.per_host,
        "lease": f"{manners.lease:g} s",
    }


def command(options: argparse.Namespace) -> str:
    """Return what is to be typed to have the same again."""
    words = [f"--queue {queue}" for queue in options.queue or ()]
    words += [f"--faults {','.join(options.faults)}"] if options.faults else []
    words += [f"--pages {options.pages}"] if options.pages else []
    words += [f"--hosts {options.hosts}"] if options.hosts != HOSTS else []
    words += [f"--launchers {options.launchers}"] if options.launchers != LAUNCHERS else []
    words += [f"--minutes {options.minutes:g}", f"--every {options.every:g}s", f"--seed {options.seed}"]
    return f"make chaos ARGS='{' '.join(words)}'"


def _plan(queue: str, options: argparse.Namespace) -> Plan:
    span, manners = 60 * options.minutes, Manners()
    pages = options.pages or round(SHARE * span * options.hosts / manners.delay)
    return Plan(
        queue=queue,
        site=Site(pages, options.hosts),
        kinds=kinds_of(queue, options.faults),
        seed=options.seed,
        span=span,
        every=options.every,
        launchers=options.launchers,
        manners=manners,
    )


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; one that cannot be read ends the program."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--queue", type=_queue, action="append", metavar="NAME", help=", ".join(APPLY))
    parser.add_argument("--faults", type=_kinds, default=[], metavar="A,B", help=", ".join(KINDS))
    parser.add_argument("--minutes", type=float, default=2.0, help="of faults, for each queue; default 2")
    parser.add_argument("--pages", type=int, help="by default as many as take about these minutes")
    parser.add_argument("--every", type=_seconds, default=2.0, metavar="2s", help="from fault to fault")
    seed = random.randrange(10_000)
    parser.add_argument("--seed", type=int, default=seed, help="deals the same faults again")
    parser.add_argument("--hosts", type=int, default=HOSTS, help=f"of the site; default {HOSTS}")
    parser.add_argument("--launchers", type=int, default=LAUNCHERS, help=f"of {WORKERS} workers; default 2")
    parser.add_argument("--json", action="store_true", help="everything that was found, instead of a table")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="logs, items and history stay there")
    parser.add_argument("--record", action="store_true", help="write docs/reference/results.md too")
    return parser.parse_args(words)


def _queue(text: str) -> str:
    return _known(text, APPLY, "queue")


def _kinds(text: str) -> list[str]:
    return [_known(word.strip(), KINDS, "fault") for word in text.split(",")]


def _known(word: str, names: Sequence[str] | dict[str, Any], what: str) -> str:
    if word not in names:
        near = get_close_matches(word, list(names), 1)
        hint = f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(names)}."
        raise argparse.ArgumentTypeError(f"No {what} is called '{word}'. {hint}")
    return word


def _seconds(text: str) -> float:
    try:
        return read_positive_duration("it", text).total_seconds()
    except InvalidSetting as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    os.environ.pop("SHOAL_QUEUE", None)
    try:
        sys.exit(main())
    except ServerMissing as error:
        sys.exit(f"error: {error}")
