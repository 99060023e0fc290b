"""The options for the seeds of a run, defined once for every command that takes them."""

import inspect
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from shoal.cli.configuration import current_project
from shoal.cli.console import put_message, say
from shoal.cli.options.workers import group
from shoal.fleet.job import Job
from shoal.fleet.run.feed import InvalidSeeds, read_policy
from shoal.fleet.run.open_run import StartOptions
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.sources.names import read_seeds
from shoal.fleet.sources.seeds import Seeds
from shoal.fleet.status.find import AUTO, NEWEST


def _sources(
    url: Annotated[
        list[str] | None,
        typer.Option("--url", help="Start URL; repeatable.", metavar="URL"),
    ] = None,
    urls_file: Annotated[
        str | None,
        typer.Option(
            "--urls-file", help="Read URLs from a .txt, .csv or .jsonl file; - is stdin.", metavar="FILE"
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="File format, if the extension doesn't show it.", metavar="FORMAT"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of the URL file, if not UTF-8.", metavar="NAME")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter", help='Column delimiter for CSV files: one character, or "tab".', metavar="CHAR"
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", help="Column or field that holds the URL; - for none.", metavar="NAME"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="Column or field that identifies a task (for dedup).", metavar="NAME"),
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(
            "--payload",
            help="Columns or fields to store as payload, * for all others. With --combine: NAME=TEMPLATE.",
            metavar="A,B|*",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            help="Column or field that holds the partition; :CA sets the partition CA for all tasks.",
            metavar="NAME",
        ),
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(
            "--priority",
            help="Priority of the tasks, 0 to 9 (higher first), or the column that holds it.",
            metavar="N|NAME",
        ),
    ] = None,
    seed_step: Annotated[
        str | None,
        typer.Option(
            "--seed-step", "--step", help="Step that handles the seeds, if not the first.", metavar="STEP"
        ),
    ] = None,
    sitemap: Annotated[
        list[str] | None,
        typer.Option(
            "--sitemap", help="Read URLs from this sitemap, or from all sitemaps of a site.", metavar="URL"
        ),
    ] = None,
    sitemap_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--sitemap-hosts",
            help="Accept sitemap URLs on these other hosts too: *.example.com.",
            metavar="HOST",
        ),
    ] = None,
    feed: Annotated[
        list[str] | None,
        typer.Option("--feed", help="Read URLs from this RSS, Atom or JSON feed; repeatable.", metavar="URL"),
    ] = None,
    feed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--feed-hosts",
            help="Accept feed entries on these other hosts too: *.example.com.",
            metavar="HOST",
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            help="Read URLs from a source of a plugin; list plugins with: shoal plugins.",
            metavar="KIND:ADDRESS",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="Only sitemap URLs and feed entries changed since this time: 2026-01-31, 7d.",
            metavar="TIME",
        ),
    ] = None,
    combine: Annotated[
        str | None,
        typer.Option(
            "--combine",
            help="Generate URLs from a template: https://x.example/{state}/{kind}.",
            metavar="TEMPLATE",
        ),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(
            "--axis",
            help="Values for a name in the --combine template: state=states.txt or kind:a,b.",
            metavar="NAME=VALUES",
        ),
    ] = None,
    from_run: Annotated[
        str | None,
        typer.Option(
            "--from-run", help="Take the dead letters of this run; with --items, its items.", metavar="RUN"
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            "--items",
            help="With --from-run: take the URL from this field of a step's items.",
            metavar="STEP[.FIELD]",
        ),
    ] = None,
) -> None:
    """Declare the options; the signature is all that matters."""


def read(named: dict[str, Any]) -> "Seeds":
    """Read the seeds; an error names the option."""
    return read_seeds(named, lambda name: f"--{name.replace('_', '-')}")


SOURCES = tuple(inspect.signature(_sources).parameters)
takes_sources = group("seeds", _sources, read)


def choose_seeds(
    typed: Seeds, job: Job, *, again: bool = False, resume: bool = False, as_json: bool = False
) -> Seeds:
    """Return the typed sources, else the declared ones, and say which; `again` is a source of its own."""
    tell = put_message if as_json else say
    declared = declared_seeds(current_project(), job)
    if typed or again:
        if declared and not resume:
            given = "The typed sources replace" if typed else "--again replaces"
            tell(f"{given} the seeds of {declared.declared_in}.")
        return typed
    if declared and not resume:
        tell(f"Seeds: {declared.declared_in}")
    return replace(declared, step=typed.step) if typed.step else declared


def start_options(
    rejects: str | None,
    invalid: str,
    *,
    run_id: str | None = None,
    resume: str | None = None,
    as_json: bool = False,
) -> StartOptions:
    """Return how a command opens its run; `resume` is the id of a run, `newest` or `auto`."""
    return StartOptions(
        run_id=run_id if resume in (None, NEWEST, AUTO) else resume,
        resume=resume is not None,
        or_new=resume == AUTO,
        routes=current_project().routes,
        invalid=InvalidSeeds(
            read_policy("--invalid", invalid), rejects=rejects, say=put_message if as_json else say
        ),
    )
