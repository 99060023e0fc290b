"""The help of a command: its options in sections."""

import shlex
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand

from shoal.cli.options.groups import write_sections
from shoal.scrape.settings.declaration import FETCHING, RECORDING, SEEDS
from shoal.scrape.settings.scraper import SETTINGS

OPTIONS = "Options"
# Option sections of the commands with many options, by parameter name; unlisted options come first. Those of
# settings are declared with them.
SECTIONS: dict[str, tuple[str, ...]] = {
    SEEDS: (
        *(
            "urls_file",
            "format",
            "encoding",
            "delimiter",
            "column",
            "key",
            "payload",
            "partition",
            "priority",
        ),
        *(
            "seed_step",
            "sitemap",
            "sitemap_hosts",
            "feed",
            "feed_hosts",
            "source",
            "since",
            "combine",
            "axis",
        ),
        *("from_run", "items", "rejects", "invalid"),
    ),
    FETCHING: ("allow_private",),
    RECORDING: (),
    "Workers": ("batch_size", "concurrency", "memory", "steps", "partitions", "partition_table", "heartbeat"),
    "Logs and metrics": ("log_dir", "log_format", "log_level", "metrics", "trace"),
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
