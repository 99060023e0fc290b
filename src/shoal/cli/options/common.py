"""Options shared by many commands."""

from typing import Annotated

import typer
from typer.models import OptionInfo

from shoal.cli.configuration import current_config
from shoal.core.values import split_words
from shoal.fleet.command_hints import DEFAULT_QUEUE as DEFAULT_QUEUE
from shoal.fleet.command_hints import messages_on
from shoal.fleet.project.config import DEFAULT_HEARTBEAT as DEFAULT_HEARTBEAT
from shoal.fleet.project.config import DEFAULT_MEMORY as DEFAULT_MEMORY
from shoal.scrape.settings.scraper import SETTINGS


def use_queue(context: typer.Context, value: str | None) -> str | None:
    """Make the commands of all messages select the queue that this command uses."""
    if value is not None:
        if not value.strip():  # as "$SHOAL_QUEUE" is, in a command that was shown, where it is not set
            value = current_config().text("SHOAL_QUEUE")
        if not value:
            raise typer.BadParameter(
                "is empty. Write the address of the queue, or set SHOAL_QUEUE: export SHOAL_QUEUE='URL'"
            )
        context.with_resource(messages_on(value))
    return value


def refuse_option(value: str | None) -> str | None:
    """Refuse the option that follows where the id of a run was forgotten."""
    if value is not None and value.startswith("--"):
        raise typer.BadParameter(f"needs a run before {value}: write --resume RUN, or --resume newest.")
    return value


def setting_option(name: str) -> OptionInfo:
    """Return the option of a setting, as it is declared."""
    declared = SETTINGS[name].option
    if declared is None:
        raise LookupError(name)
    option: OptionInfo = typer.Option(
        f"--{name.replace('_', '-')}",
        envvar=declared.variable,
        help=declared.help,
        metavar=declared.metavar,
    )
    return option


Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        callback=use_queue,
        envvar="SHOAL_QUEUE",
        help="Queue: sqlite:///FILE, postgresql://…, redis://… or amqp://…",
        metavar="URL",
    ),
]
After = Annotated[
    str | None,
    typer.Option("--after", help="Continue a list after this cursor.", metavar="CURSOR"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines to stdout.")]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, the start of one, or newest. List them with: shoal runs")
]
MaybeRunId = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Run id, the start of one, or newest; the newest run by default."),
]
RunFilter = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Run id, the start of one, or newest; all runs by default."),
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", help="Only this run: its id, the start of it, or newest.", metavar="RUN|newest"),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="Show all columns, one line per row, even if the terminal is narrower.")
]
Scraper = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:NAME]|NAME",
        help="Scraper file, with :NAME if it defines several; or a scraper's name in shoal.toml.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        help="Write items to this file (.jsonl, .csv, .parquet), or - for stdout.",
        metavar="FILE",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")]
Append = Annotated[
    bool,
    typer.Option("--append", help="Add to the output file if it exists: .jsonl, .jsonl.gz or .csv."),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        help="Resume this run, or the newest unfinished one; auto starts a new run if there is none.",
        metavar="RUN|newest|auto",
        callback=refuse_option,
    ),
]
NewRunId = Annotated[str | None, typer.Option("--run", help="Id for the new run.", metavar="RUN")]
Rejects = Annotated[
    str | None,
    typer.Option("--rejects", help="Write invalid seeds and the reasons to this file.", metavar="FILE"),
]
Invalid = Annotated[
    str,
    typer.Option(
        "--invalid",
        help="What to do with an invalid seed: skip it, store it as a dead letter, or stop with an error.",
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
        help="Number of worker processes to start: 1 by default, 0 for a distributed scraper.",
    ),
]
Span = Annotated[
    str | None,
    typer.Option(
        "--for", help="Stop after this long, such as 90s or 2h; unfinished tasks stay queued.", metavar="TIME"
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        envvar="SHOAL_CONCURRENCY",
        help="Maximum concurrent requests, and maximum concurrent steps, per worker: 64 by default, and then "
        "1,000 more may wait for hosts that take longer than 0.1 s to respond.",
        metavar="N",
    ),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        envvar="SHOAL_MEMORY",
        help="Maximum memory per worker for page bodies in flight.",
        metavar="SIZE",
    ),
]
Steps = Annotated[str | None, typer.Option("--steps", help="Only work on these steps.", metavar="A,B")]
Partitions = Annotated[
    str | None,
    typer.Option(
        "--partitions",
        help="Only work on these partitions; or assign them automatically: auto shares them among the "
        "workers, exclusive gives each to one worker.",
        metavar="X,Y|auto|exclusive",
    ),
]
PartitionTable = Annotated[
    str | None,
    typer.Option(
        "--partition-table",
        help='Assign partitions to workers as this file says: 1 = ["CA", "NV"]',
        metavar="FILE",
    ),
]
Heartbeat = Annotated[
    str,
    typer.Option(
        "--heartbeat",
        envvar="SHOAL_HEARTBEAT",
        help="Heartbeat interval: how soon partitions are reassigned when a worker starts or stops.",
        metavar="TIME",
    ),
]
AllowPrivate = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-private", help="Allow requests to this private host or network; repeatable.", metavar="HOST"
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Override a scraper setting, such as rate=5/s, or max_pages=100 to stop after 100 pages and "
        "downloads; repeatable. List them with: shoal config FILE",
        metavar="KEY=VALUE",
    ),
]
Args = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        "-a",
        help="Argument of the run, as the scraper declares it, such as category=books; repeatable.",
        metavar="NAME=VALUE",
    ),
]

Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Run everything in this process and terminal, one task at a time: breakpoint() works in steps, "
        "and the first error of a step opens the debugger and ends the run. The queue is temporary "
        "unless you name one.",
    ),
]
Proxies = Annotated[str | None, setting_option("proxies")]
Tokens = Annotated[str | None, setting_option("tokens")]
Tor = Annotated[str | None, setting_option("tor")]
LogDir = Annotated[
    str | None,
    typer.Option(
        "--log-dir",
        envvar="SHOAL_LOG_DIR",
        help="Write one log file per worker and a combined one to this folder; - logs to stdout.",
        metavar="FOLDER|-",
    ),
]
LogFormat = Annotated[
    str,
    typer.Option("--log-format", envvar="SHOAL_LOG_FORMAT", help="Log line format.", metavar="human|json"),
]
LogLevel = Annotated[
    str,
    typer.Option(
        "--log-level",
        envvar="SHOAL_LOG_LEVEL",
        help="Minimum log level: debug, info, warning or error.",
        metavar="LEVEL",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        envvar="SHOAL_METRICS",
        help="Serve Prometheus metrics at this address.",
        metavar="HOST:PORT",
    ),
]
Trace = Annotated[
    bool,
    typer.Option(
        "--trace", help="Export an OpenTelemetry trace of every task, configured by the OTEL_* variables."
    ),
]


def words(text: str | None) -> list[str] | None:
    """Return the words of a comma-separated option."""
    return None if text is None else split_words(text)
