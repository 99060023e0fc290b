"""`shoal serve`: the JSON API and the live pages of a queue."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import say
from shoal.core.errors import InvalidInput, InvalidSetting

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from shoal.queue.contract import Queue
    from shoal.web.site import WebSettings

EVERYWHERE = ("0.0.0.0", "::")


def serve(
    queue: options.Queue = options.DEFAULT_QUEUE,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="SHOAL_WEB_HOST",
            help="The address to listen at; 0.0.0.0 for all.",
            metavar="ADDRESS",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", envvar="SHOAL_WEB_PORT", min=0, max=65_535, help="The port; 0 is any.", metavar="N"
        ),
    ] = 8700,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            envvar="SHOAL_WEB_TOKEN_FILE",
            help="A file that holds the operator's token; else SHOAL_WEB_TOKEN has it.",
            metavar="FILE",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            envvar="SHOAL_WEB_ALLOW_HOST",
            help="A name by which browsers may ask, beside this machine's own; may be given again.",
            metavar="NAME[:PORT]",
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show, and change nothing.")] = False,
    https_behind_proxy: Annotated[
        bool, typer.Option("--https-behind-proxy", help="Browsers come by https, through a proxy in front.")
    ] = False,
) -> None:
    """Serve the JSON API and the live pages of a queue, until Ctrl-C.

    Whoever comes in needs a token: SHOAL_WEB_TOKEN is the operator's, SHOAL_WEB_READER_TOKEN may only look.
    Without them one is made up, for this machine only, and a link is shown that logs in once.

    Example: shoal serve --queue postgresql://db/shoal

    Example: SHOAL_WEB_TOKEN="$(openssl rand -hex 24)" shoal serve --host 0.0.0.0 --allow-host shoal.example
    """
    _need_libraries()
    from shoal.web.serving import bind
    from shoal.web.site import WebSettings

    def settings_at(bound: int) -> "WebSettings":
        return WebSettings.read(
            host=host,
            port=bound,
            allowed_hosts=allow_host or (),
            operator_token=_token(token_file),
            reader_token=os.environ.get("SHOAL_WEB_READER_TOKEN") or None,
            read_only=read_only,
            is_behind_https=https_behind_proxy,
        )

    settings_at(port)  # what is wrong with them is said before anything is opened
    taken = bind(host, port)
    settings = settings_at(taken.getsockname()[1])
    ask(queue, lambda opened: _serve(opened, queue, settings, taken))


async def _serve(queue: "Queue", url: str, settings: "WebSettings", at: "socket.socket") -> None:
    from shoal.fleet.app import App
    from shoal.fleet.project import Project
    from shoal.web.app import make_app
    from shoal.web.sampler import Sampler
    from shoal.web.serving import serve
    from shoal.web.site import Site

    app = App(queue, url, Project.find(Path.cwd()))
    web = make_app(Site(app, Sampler(queue), settings))
    try:
        await serve(web, at, lambda: _tell(settings, web.state.doorkeeper.tickets.issue))
    finally:
        await app.close()


def _tell(settings: "WebSettings", ticket: "Callable[[], str]") -> None:
    name = "127.0.0.1" if settings.host in EVERYWHERE else settings.host
    address = f"http://{f'[{name}]' if ':' in name else name}:{settings.port}"
    say(f"Shoal is at {address}  (Ctrl-C ends it)")
    if not settings.is_chosen:
        say(f"Log in, once and within ten minutes:  {address}/login?ticket={ticket()}")
    elif settings.host in EVERYWHERE and not settings.allowed_hosts:
        say("Other machines are refused until you name what they ask for: --allow-host NAME")


def _token(file: str | None) -> str | None:
    if file is None:
        return os.environ.get("SHOAL_WEB_TOKEN") or None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read: {file}. Make one: openssl rand -hex 24 > {file}"
        raise InvalidSetting("--token-file", reason) from error


def _need_libraries() -> None:
    try:
        for name in ("fastapi", "itsdangerous", "jinja2", "uvicorn"):
            import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInput("The web server needs its libraries. Run: pip install 'shoal[web]'") from error
