"""The help of `shoal` itself: its commands in sections. No command is imported for it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typer import BadParameter
from typer.core import TyperGroup

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


def group_with(
    commands: Mapping[str, Mapping[str, str]], also: Mapping[str, Sequence[str]]
) -> type[TyperGroup]:
    """Return a group whose help lists commands with their help lines, and others by name, by section."""

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
            for section, lines in commands.items():
                rows = [(name.ljust(widest), line) for name, line in lines.items()]
                if names := also.get(section):
                    rows.append(("Also:", ", ".join(names)))
                formatter.write(f"\n{section}:\n")
                with formatter.indentation():
                    formatter.write_dl(rows)

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
