"""The configuration of the typed command: read once, before its options are."""

import os
from pathlib import Path
from typing import Any

from shoal.fleet.command_hints import set_configured_queue
from shoal.fleet.project.config import Config
from shoal.fleet.project.file import Project


class _Command:
    config: Config | None = None


def read_config() -> Config:
    """Read the configuration of this folder for the whole command."""
    config = _Command.config = Config.read(Path.cwd(), os.environ)
    config.export_others(os.environ)
    set_configured_queue(config.queue)
    return config


def current_config() -> Config:
    """Return the configuration of the command; where none was read, that of this folder."""
    return _Command.config or Config.read(Path.cwd(), os.environ)


def current_project() -> "Project":
    """Return the project of the command."""
    return current_config().project


def option_defaults(command: Any, config: Config) -> dict[str, Any]:
    """Return the defaults that the configuration gives to the options of a command and of those below it."""
    below = {name: option_defaults(each, config) for name, each in getattr(command, "commands", {}).items()}
    own = {}
    for option in command.params:
        text = config.text(option.envvar) if isinstance(option.envvar, str) else None
        if text is not None:
            own[option.name] = text.split() if option.multiple else text
    return own | below
