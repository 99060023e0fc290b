"""Help layout: commands and options grouped into sections."""

import shlex
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

from shoal.scrape.settings.declaration import FETCHING, RECORDING, SEEDS
from shoal.scrape.settings.scraper import SETTINGS

OPTIONS = "Options"
# Option sections of the commands with many options, by parameter name; unlisted options come first. Those of
# settings are declared with them.
SECTIONS: dict[str, tuple[str, ...]] = {
    SEEDS: (
        "urls_file",
        "format",
        "encoding",
        "delimiter",
        "column",
        "key",
        "payload",
        "partition",
        "priority",
        "seed_step",
        "sitemap",
        "sitemap_hosts",
        "feed",
        "feed_hosts",
        "source",
        "since",
        "combine",
        "axis",
        "from_run",
        "items",
        "rejects",
        "invalid",
    ),
    FETCHING: ("allow_private",),
    RECORDING: (),
    "Workers": (
        "batch_size",
        "concurrency",
        "memory",
        "steps",
        "partitions",
        "partition_table",
        "heartbeat",
    ),
    "Logs and metrics": ("log_dir", "log_format", "log_level", "metrics", "trace"),
}
# What other tools call a command, such as Scrapy, Celery and Docker; a similar spelling is often another one.
NAMES_ELSEWHERE = {
    **dict.fromkeys(("crawl", "runspider"), ("run",)),
    **dict.fromkeys(("startproject", "genspider", "init", "create"), ("new",)),
    **dict.fromkeys(("doctor", "test", "validate"), ("check",)),
    **dict.fromkeys(("settings", "env"), ("config",)),
    **dict.fromkeys(("parse", "view", "fetch"), ("shell", "scrape")),
    **dict.fromkeys(("retry", "replay", "failed", "errors", "edit"), ("dead",)),
    **dict.fromkeys(("stop", "kill"), ("pause", "cancel")),
    **dict.fromkeys(("delete", "remove", "rm", "clean"), ("purge",)),
    **dict.fromkeys(("submit", "push", "add"), ("enqueue",)),
    **dict.fromkeys(("cron", "schedules", "every", "repeat", "beat"), ("schedule",)),
    **dict.fromkeys(("web", "ui", "dashboard", "server", "flower"), ("serve",)),
    **dict.fromkeys(("monitor", "ps"), ("top", "workers")),
    **dict.fromkeys(("results", "download"), ("items", "export")),
    "list": ("runs", "scrapers"),
    "queue": ("status", "runs"),
    "version": ("--version",),
    "help": ("--help",),
}
SECTION_OF = {name: section for section, names in SECTIONS.items() for name in names}
SECTION_OF |= {name: one.option.section for name, one in SETTINGS.items() if one.option}


# The context of the command that is carried out, from which `resume_command` rebuilds it.
typed_command: ContextVar[Any] = ContextVar("typed_command", default=None)


class SectionedCommand(TyperCommand):
    """A command whose help shows its options in sections, and that knows settings typed as options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the typed words; a setting that has no option of its own is refused with how to type it."""
        options = {name for param in self.get_params(ctx) for name in param.opts}
        for place, word in enumerate(args):
            name, _, value = word.partition("=")
            if name.startswith("--") and name not in options and "--set" in options:
                following = args[place + 1] if place + 1 < len(args) else "-"
                _refuse_setting(ctx, name, value or following)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command, and remember how it was typed."""
        typed_command.set(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options section by section."""
        rows: dict[str, list[tuple[str, str]]] = {
            "Arguments": [],
            OPTIONS: [],
            **{name: [] for name in SECTIONS},
        }
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record:
                is_option = param.param_type_name == "option"
                rows[SECTION_OF.get(param.name or "", OPTIONS) if is_option else "Arguments"].append(record)
        write_sections(formatter, rows)


def _refuse_setting(ctx: Any, option: str, value: str) -> None:
    key = option.removeprefix("--").replace("-", "_")
    if key in SETTINGS:
        shown = "VALUE" if value.startswith("-") else value
        ctx.fail(f"No such option: {option}. It is a setting: --set {shlex.quote(f'{key}={shown}')}")


def group_with(commands: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """Return a group whose help lists these commands with their help lines, section by section."""

    class SectionedGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] not in self.commands and (meant := NAMES_ELSEWHERE.get(args[0])):
                names = " or ".join(repr(name) for name in meant)
                ctx.fail(f"No such command {args[0]!r}. Did you mean {names}?")
            return super().resolve_command(ctx, args)

        def invoke(self, ctx: Any) -> Any:
            try:
                return super().invoke(ctx)
            except BadParameter as error:
                # What is missing has a name and no message yet.
                if not error.message and error.ctx:
                    error.message = _how_to_type(error.ctx.command, error.param)
                raise

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            widest = max(len(name) for names in commands.values() for name in names)
            rows = {
                section: [(name.ljust(widest), line) for name, line in lines.items()]
                for section, lines in commands.items()
            }
            write_sections(formatter, rows)

    return SectionedGroup


def _how_to_type(command: Any, missing: Any) -> str:
    """Return the first example of the command that lacks a parameter, or what the parameter is."""
    for paragraph in (command.help or "").split("\n\n"):
        _, found, example = " ".join(paragraph.split()).partition("Example: ")
        if found:
            return f"For example: {example}"
    return getattr(missing, "help", None) or ""


def write_sections(formatter: Any, rows: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    """Write every non-empty section."""
    for section, lines in rows.items():
        if lines:
            with formatter.section(section):
                formatter.write_dl(lines)
