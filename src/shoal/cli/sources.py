"""The options that say what a run begins with, defined once for every command that takes them."""

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.groups import group

if TYPE_CHECKING:
    from shoal.fleet.seeds import Seeds


def _sources(
    url: Annotated[
        list[str] | None,
        typer.Option("--url", help="A URL to begin with; may be given again.", metavar="URL"),
    ] = None,
    urls_file: Annotated[
        str | None,
        typer.Option("--urls-file", help="URLs of a .txt, .csv or .jsonl file; - is stdin.", metavar="FILE"),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="The URL file's format, if its name is silent.", metavar="FORMAT"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="The URL file's encoding, if not UTF-8.", metavar="NAME")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", help="What parts a table's cells: one sign, or tab.", metavar="SIGN"),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", help="The column or field that holds the URL; - for none.", metavar="NAME"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The column or field by which a task is known.", metavar="NAME"),
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(
            "--payload",
            help="Columns or fields that become the payload, * for all others; for --combine NAME=TEMPLATE.",
            metavar="A,B|*",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition", help="The tasks' partition, or the column that has it; :CA is CA.", metavar="NAME"
        ),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(
            "--priority", help="The tasks' priority, 0 to 9, or the column that has it.", metavar="N|NAME"
        ),
    ] = None,
    seed_step: Annotated[
        str | None,
        typer.Option("--seed-step", help="The step that these begin with, if not the first.", metavar="STEP"),
    ] = None,
    sitemap: Annotated[
        list[str] | None,
        typer.Option("--sitemap", help="URLs from a sitemap, or from those of a site.", metavar="URL"),
    ] = None,
    sitemap_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--sitemap-hosts", help="Other hosts that sitemaps may name: *.example.com.", metavar="HOST"
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Only what a sitemap says was changed since: 2026-01-31 or 7d.", metavar="TIME"
        ),
    ] = None,
    combine: Annotated[
        str | None,
        typer.Option(
            "--combine", help="URLs of a template: https://x.example/{state}/{kind}.", metavar="TEMPLATE"
        ),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option("--axis", help="Values of a name: state=states.txt or kind:a,b.", metavar="NAME=VALUES"),
    ] = None,
    from_run: Annotated[
        str | None,
        typer.Option("--from-run", help="The dead letters of a run; with --items its items.", metavar="RUN"),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option("--items", help="With --from-run: a field of a step's items.", metavar="STEP[.FIELD]"),
    ] = None,
) -> None:
    """Say what a run begins with."""


def read(named: dict[str, Any]) -> "Seeds":
    """Read the sources; an error names the option."""
    from shoal.fleet.named import read_seeds

    return read_seeds(named, lambda name: f"--{name.replace('_', '-')}")


SOURCES = tuple(inspect.signature(_sources).parameters)
takes_sources = group("seeds", _sources, read)
