"""The options that many commands share."""

from typing import Annotated

import typer

DEFAULT_QUEUE = "sqlite:///shoal.db"

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
    typer.Option("--urls-file", help="A file with one URL a line; - is standard input.", metavar="FILE"),
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
