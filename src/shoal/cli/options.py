"""The options that many commands share."""

from typing import Annotated

import typer

from shoal.fleet.retyping import DEFAULT_QUEUE as DEFAULT_QUEUE

DEFAULT_MEMORY = "256 MB"
DEFAULT_HEARTBEAT = "5s"

Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        envvar="SHOAL_QUEUE",
        help="Where tasks and results are kept: sqlite:///FILE, postgresql://…, redis://…, amqp://…; "
        "with ?namespace=NAME, each name is a queue of its own.",
        metavar="URL",
    ),
]
After = Annotated[
    str | None, typer.Option("--after", help="Go on where the list before ended.", metavar="PLACE")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON lines to stdout.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id; list them with: shoal runs")]
Scraper = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:NAME]|NAME",
        help="The scraper's file, and its name if it holds several; or its name in shoal.toml.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        help="Write the items there: .jsonl, .csv, .parquet, or - for stdout.",
        metavar="FILE",
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume", help="Go on with this run, or with the newest unfinished one.", metavar="RUN|newest"
    ),
]
NewRunId = Annotated[str | None, typer.Option("--run", help="An id for the new run.", metavar="RUN")]
Rejects = Annotated[
    str | None,
    typer.Option("--rejects", help="Write what cannot be queued there, and why.", metavar="FILE"),
]
Invalid = Annotated[
    str,
    typer.Option(
        "--invalid",
        help="What becomes of a seed that cannot be queued: skip it, make it a dead letter, or stop.",
        metavar="skip|dead|raise",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        metavar="N",
        envvar="SHOAL_WORKERS",
        help="How many worker processes to start.",
        show_default="1, and none for a distributed scraper",
    ),
]
Span = Annotated[
    str | None,
    typer.Option("--for", help="Work for this long at most: 90s, 2h. What is left stays.", metavar="TIME"),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        min=1,
        envvar="SHOAL_AT_ONCE",
        help="How many requests a worker has in flight at most, and how many steps it runs at a time.",
        metavar="N",
        show_default="64",
    ),
]
SlowRequests = Annotated[
    int | None,
    typer.Option(
        "--slow-requests",
        min=0,
        envvar="SHOAL_SLOW_REQUESTS",
        help="How many requests beyond --at-once may wait for hosts that take longer than 0.1 s.",
        metavar="N",
        show_default="1000, and none with --at-once",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory", envvar="SHOAL_MEMORY", help="How much of pages a worker holds at once.", metavar="SIZE"
    ),
]
Steps = Annotated[str | None, typer.Option("--steps", help="Work on these steps only.", metavar="A,B")]
Partitions = Annotated[
    str | None,
    typer.Option(
        "--partitions",
        help="Work on these partitions only; or share them out: auto, or exclusive, each to one worker.",
        metavar="X,Y|auto|exclusive",
    ),
]
PartitionTable = Annotated[
    str | None,
    typer.Option("--partition-table", help='Share them out as written: 1 = ["CA", "NV"]', metavar="FILE"),
]
Heartbeat = Annotated[
    str,
    typer.Option(
        "--heartbeat",
        envvar="SHOAL_HEARTBEAT",
        help="How soon partitions are shared out again when a worker comes or goes.",
        metavar="TIME",
    ),
]
AllowPrivate = Annotated[
    list[str] | None,
    typer.Option("--allow-private", help="A private host or network that may be fetched.", metavar="HOST"),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", help="Change a setting of the scraper, such as rate=5/s.", metavar="KEY=VALUE"
    ),
]

Cache = Annotated[
    str | None,
    typer.Option("--cache", help="Keep pages for this long: 60s, off, or '10m disk:FOLDER'.", metavar="TIME"),
]
Proxies = Annotated[
    str | None,
    typer.Option(
        "--proxies",
        envvar="SHOAL_PROXIES",
        help="Fetch by the proxies of this file: proxies.txt, or 'proxies.txt strategy=fastest'; off.",
        metavar="FILE",
    ),
]
Tokens = Annotated[
    str | None,
    typer.Option(
        "--tokens",
        help="API tokens, and whom they are for: 'env:NAME hosts=api.example.com' or 'FILE hosts=…'.",
        metavar="WHERE",
    ),
]
Warc = Annotated[
    str | None,
    typer.Option("--warc", help="Record every exchange there: crawl.warc.gz.", metavar="FILE"),
]
Again = Annotated[
    str | None,
    typer.Option(
        "--again", help="Visit the pages of this run once more, and say what changed.", metavar="RUN|newest"
    ),
]
Replay = Annotated[
    str | None,
    typer.Option("--replay", help="Run on a recording, and ask nobody.", metavar="FILE|FOLDER"),
]
Dedup = Annotated[
    str | None,
    typer.Option(
        "--dedup",
        help="Leave out what other runs of the scraper have queued, for this long: 30d, "
        "'30d steps=article', off.",
        metavar="TIME",
    ),
]
Tor = Annotated[
    str | None,
    typer.Option(
        "--tor",
        envvar="SHOAL_TOR",
        help="Fetch by a Tor of each worker's own: on, off, or renew=50 for a new circuit after 50 requests.",
        metavar="on|off|RULES",
    ),
]
Fetch = Annotated[
    str | None,
    typer.Option(
        "--fetch",
        help="How pages come home where a step does not say: http, browser, or auto for whichever is needed.",
        metavar="http|browser|auto",
    ),
]
LogDir = Annotated[
    str | None,
    typer.Option(
        "--log-dir",
        envvar="SHOAL_LOG_DIR",
        help="Write a log for each worker and one for all there; - writes them to stdout.",
        metavar="FOLDER|-",
    ),
]
LogFormat = Annotated[
    str,
    typer.Option("--log-format", envvar="SHOAL_LOG_FORMAT", help="How they look.", metavar="human|json"),
]
LogLevel = Annotated[
    str,
    typer.Option(
        "--log-level",
        envvar="SHOAL_LOG_LEVEL",
        help="From which level on: debug, info, warning, error.",
        metavar="LEVEL",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", envvar="SHOAL_METRICS", help="Serve metrics for Prometheus there.", metavar="HOST:PORT"
    ),
]
Trace = Annotated[
    bool, typer.Option("--trace", help="Send a trace of every task, as the OTEL_* variables say.")
]


def setting(key: str, text: str | None) -> list[str]:
    """Return an option as a setting of the scraper, as `--set` takes it."""
    return [] if text is None else [f"{key}={text}"]


def words(text: str | None) -> list[str] | None:
    """Return the words of a comma-separated option."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
