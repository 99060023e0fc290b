"""`shoal serve`: the web dashboard and the JSON API of a queue; `shoal metrics`: its Prometheus metrics."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.configuration import current_config, current_project
from shoal.cli.console import say
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.tasks import watched
from shoal.core.values import read_host_port
from shoal.fleet.app import App
from shoal.fleet.cluster_roles import MessageObserver
from shoal.fleet.notify.notifier import Notifier
from shoal.fleet.schedule.store import Schedules
from shoal.fleet.schedule_coordinator import ScheduleCoordinator
from shoal.fleet.telemetry.metrics import QueueMetrics, need_library
from shoal.fleet.telemetry.setup import MetricsServer
from shoal.queue.contract import Queue
from shoal.registry.extras import install_command
from shoal.web.sampler import Sampler

if TYPE_CHECKING:
    from shoal.web.context import WebSettings


ALL_INTERFACES = ("0.0.0.0", "::")


def serve(
    queue: common.Queue = common.DEFAULT_QUEUE,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="SHOAL_WEB_HOST",
            help="Address to listen on; 0.0.0.0 for all interfaces.",
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            envvar="SHOAL_WEB_PORT",
            min=0,
            max=65_535,
            help="Port to listen on; 0 picks a free one.",
            metavar="N",
        ),
    ] = 8700,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            envvar="SHOAL_WEB_TOKEN_FILE",
            help="File with the operator token, instead of SHOAL_WEB_TOKEN.",
            metavar="FILE",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            envvar="SHOAL_WEB_ALLOW_HOST",
            help="Host name that browsers may use, besides this machine's own; repeatable.",
            metavar="NAME[:PORT]",
        ),
    ] = None,
    max_workers: Annotated[
        int,
        typer.Option(
            "--max-workers",
            envvar="SHOAL_WEB_MAX_WORKERS",
            min=0,
            help="Workers that users may start on this machine; 0 for none. They stop with the server.",
            metavar="N",
        ),
    ] = 8,
    read_only: Annotated[bool, typer.Option("--read-only", help="Reject every change.")] = False,
    schedules: Annotated[
        bool,
        typer.Option(
            "--schedules", help="Fire schedules and send messages, as one of any number of coordinators."
        ),
    ] = False,
    https_behind_proxy: Annotated[
        bool,
        typer.Option("--https-behind-proxy", help="Browsers connect over https, through a reverse proxy."),
    ] = False,
) -> None:
    """Serve the web dashboard and the JSON API of a queue until Ctrl-C.

    Clients need a token: SHOAL_WEB_TOKEN grants full access, SHOAL_WEB_READER_TOKEN read-only access.
    Without them, Shoal serves this machine only and prints a one-time login link.

    Example: shoal serve --queue postgresql://db/shoal

    Example: SHOAL_WEB_TOKEN="$(openssl rand -hex 24)" shoal serve --host 0.0.0.0 --allow-host shoal.example
    """
    _need_libraries()
    from shoal.web.context import WebSettings
    from shoal.web.server import bind

    def settings_at(bound: int) -> "WebSettings":
        return WebSettings.read(
            host=host,
            port=bound,
            allowed_hosts=allow_host or (),
            operator_token=_token(token_file),
            reader_token=current_config().text("SHOAL_WEB_READER_TOKEN"),
            read_only=read_only,
            is_behind_https=https_behind_proxy,
            max_workers=max_workers,
        )

    settings_at(port)  # raises for wrong settings before anything is opened
    taken = bind(host, port)
    settings = settings_at(taken.getsockname()[1])
    with_queue(queue, lambda opened: _serve(opened, queue, settings, taken, fires=schedules))


async def _serve(
    queue: "Queue", url: str, settings: "WebSettings", at: "socket.socket", *, fires: bool
) -> None:
    from shoal.web.app import make_app
    from shoal.web.context import WebContext
    from shoal.web.server import serve

    app = App(queue, url, current_project())
    web = make_app(WebContext(app, Sampler(queue), settings))
    # The socket listens already: who connects now is served in a moment.
    _print_address(settings, web.state.logins.ticket.text)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        if fires:
            await stack.enter_async_context(_firing(app))
        await serve(web, at)


@asynccontextmanager
async def _firing(app: App) -> AsyncIterator[None]:
    """Fire schedules and send messages inside the block."""
    async with Notifier(app.queue, app.project, say) as notifier:
        scheduler = ScheduleCoordinator(app, MessageObserver(say), notifier=notifier)
        firing = watched(asyncio.create_task(scheduler.serve()))
        try:
            yield
        finally:
            scheduler.stop()
            await asyncio.wait([firing])


def _print_address(settings: "WebSettings", ticket: str) -> None:
    name = "127.0.0.1" if settings.host in ALL_INTERFACES else settings.host
    address = f"http://{f'[{name}]' if ':' in name else name}:{settings.port}"
    say(f"Serving Shoal at {address}  (Ctrl-C to stop)")
    if not settings.is_chosen:
        say(f"Log in with this link (works once, within ten minutes):  {address}/login?ticket={ticket}")
    elif settings.host in ALL_INTERFACES and not settings.allowed_hosts:
        say("Requests from other machines are rejected until you allow a host name: --allow-host NAME")


def _token(file: str | None) -> str | None:
    if file is None:
        return current_config().text("SHOAL_WEB_TOKEN")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read: {file}. Create one: openssl rand -hex 24 > {file}"
        raise InvalidSetting("--token-file", reason) from error


def _need_libraries() -> None:
    try:
        for name in ("fastapi", "itsdangerous", "jinja2", "uvicorn"):
            import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"The web server needs its libraries. Run: {install_command('web')}") from error


def metrics(
    listen: Annotated[
        str | None,
        typer.Option("--listen", help="Serve the metrics at this address until Ctrl-C.", metavar="HOST:PORT"),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
) -> None:
    """Print the Prometheus metrics of a whole queue, or serve them with --listen.

    One such process is enough for a fleet. Workers serve their own metrics: shoal work --metrics.

    Example: shoal metrics --listen 0.0.0.0:9464 --queue postgresql://db/shoal
    """
    need_library()
    address = read_host_port("--listen", listen) if listen else None
    with_queue(queue, lambda opened: _serve_metrics(opened, address))


async def _serve_metrics(queue: "Queue", address: tuple[str, int] | None) -> None:
    found = QueueMetrics(queue, Schedules(queue, current_project()).all)
    if address is None:
        sys.stdout.write((await found.text()).decode())
        return
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    async with MetricsServer(address, found.text) as server:
        say(f"Serving metrics at {server.url} (Ctrl-C to stop)")
        await leave.wait()
