"""The commands below `notify`: the channels of shoal.toml, and a message to try one."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer

from shoal.cli.configuration import current_project
from shoal.cli.console import say
from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.notifications import Notification
from shoal.core.values import hint
from shoal.fleet.notify.channels import Channel, NotSent, read_channels
from shoal.fleet.notify.incidents import Incident, Incidents, event_id
from shoal.fleet.status.rows.row import TableColumns
from shoal.queue.contract import Queue

app = typer.Typer(no_args_is_help=True, help="Messages about runs: list the channels, and try one.")
COLUMNS = TableColumns(("name", "kind", "events", "waiting", "error"), folds=("events", "error"))
NONE = 'No channels yet. Add one to shoal.toml:  [notify.team]  kind = "slack"  url = "env:SLACK_URL"'


@app.command("list")
def list_(queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """List the channels, and how many messages wait because their receiver is away."""
    told = list[str]()
    channels = read_channels(current_project(), told.append)
    incidents, now = with_existing_queue(queue, _read)
    rows = []
    for channel in channels:
        found = [
            (len(one.left(channel.id, now)), delivery.error)
            for one in incidents.values()
            if (delivery := one.deliveries.get(channel.id))
        ]
        rows.append(
            {
                "name": channel.name,
                "kind": channel.settings.kind,
                "events": ", ".join(channel.settings.events),
                "waiting": sum(count for count, _ in found),
                "error": next((error for count, error in found if count and error), ""),
            }
        )
    put_rows(rows, COLUMNS, as_json=as_json, nothing=NONE)
    for text in told:
        say(text)


async def _read(queue: Queue) -> tuple[dict[str, Incident], datetime]:
    return await Incidents(queue).all(), await queue.now()


@app.command()
def test(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The channel, as in [notify.NAME].")],
) -> None:
    """Send a message to a channel now, and say whether its receiver took it.

    Example: shoal notify test team
    """
    known = {channel.name: channel for channel in read_channels(current_project())}
    if name not in known:
        raise InvalidInput(f"No channel is called {name!r}. {hint(name, known)}" if known else NONE)
    if known[name].missing:
        raise InvalidInput(known[name].missing)
    asyncio.run(_send(known[name]))
    say(f"Sent to {name}.")


async def _send(channel: Channel) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    message = Notification(
        id=event_id("test", now),
        event="test",
        state="once",
        title="Test message of Shoal",
        text="If you can read this, messages arrive.",
        at=now,
    )
    try:
        await channel.send(message)
    except NotSent as error:
        raise ShoalError(f"The message to {channel.name!r} was not sent: {error}") from error
