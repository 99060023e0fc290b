"""`shoal export`: a run's items as a file."""

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, say

if TYPE_CHECKING:
    from shoal.queue.contract import Queue


def export(
    run_id: options.RunId,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="FILE.jsonl, .jsonl.gz, .csv or .parquet; - writes JSON lines to stdout.",
            metavar="FILE",
        ),
    ],
    step: Annotated[str | None, typer.Option(help="Items of this step only.")] = None,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Add url, step, task and time to each item.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="CSV: do not make cells safe for spreadsheets.")] = False,
    queue: options.Queue = options.DEFAULT_QUEUE,
    as_json: options.Json = False,
) -> None:
    """Write a run's items to a file; it appears when it is whole.

    Example: shoal export 20260215_120000_ab12 --to books.csv
    """
    count = ask(queue, lambda opened: _export(opened, run_id, to, step, envelope, raw))
    if as_json and to != "-":
        put_json({"run_id": run_id, "items": count, "file": to})
    else:
        say(f"Wrote {count:,} items to {'stdout' if to == '-' else to}.")


async def _export(queue: "Queue", run_id: str, to: str, step: str | None, envelope: bool, raw: bool) -> int:
    from shoal.export.open import open_writer
    from shoal.export.stream import export as write

    await queue.run(run_id)
    return await write(lambda: queue.items(run_id, step=step), open_writer(to, envelope=envelope, raw=raw))
