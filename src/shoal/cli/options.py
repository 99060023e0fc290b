"""The options that many commands share."""

from typing import Annotated

import typer

DEFAULT_QUEUE = "sqlite:///shoal.db"
DEFAULT_MEMORY = "256 MB"

Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        envvar="SHOAL_QUEUE",
        help="Where tasks and results are kept: sqlite:///FILE, postgresql://…, redis://…",
        metavar="URL",
    ),
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
Urls = Annotated[
    list[str] | None, typer.Option("--url", help="A URL to begin with; may be given again.", metavar="URL")
]
UrlsFile = Annotated[
    str | None,
    typer.Option("--urls-file", help="URLs of a .txt, .csv or .jsonl file; - is stdin.", metavar="FILE"),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The URL file's format, if its name is silent.", metavar="FORMAT"),
]
Column = Annotated[
    str | None, typer.Option("--column", help="The table's column that holds the URL.", metavar="NAME")
]
Sitemap = Annotated[
    list[str] | None,
    typer.Option("--sitemap", help="URLs from a sitemap, or from those of a site.", metavar="URL"),
]
Since = Annotated[
    str | None, typer.Option("--since", help="Only what a sitemap says was changed since: 2026-01-31 or 7d.")
]
Combine = Annotated[
    str | None,
    typer.Option(
        "--combine", help="URLs of a template: https://x.example/{state}/{kind}.", metavar="TEMPLATE"
    ),
]
Axes = Annotated[
    list[str] | None,
    typer.Option("--axis", help="Values of a name: state=states.txt or kind:a,b.", metavar="NAME=VALUES"),
]
FromRun = Annotated[
    str | None,
    typer.Option("--from-run", help="The dead letters of a run, or with --items its items.", metavar="RUN"),
]
Items = Annotated[
    str | None,
    typer.Option("--items", help="With --from-run: a field of a step's items.", metavar="STEP[.FIELD]"),
]
Rejects = Annotated[
    str | None,
    typer.Option("--rejects", help="Write what cannot be queued there, and why.", metavar="FILE"),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-w",
        min=1,
        envvar="SHOAL_WORKERS",
        help="How many worker processes to start.",
        show_default="1, and none for a distributed scraper",
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--at-once", min=1, envvar="SHOAL_AT_ONCE", help="How many tasks a worker has in hand at once."
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
    str | None, typer.Option("--partitions", help="Work on these partitions only.", metavar="X,Y")
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


def words(text: str | None) -> list[str] | None:
    """Return the words of a comma-separated option."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
