"""The commands that pages and files tell people to type, read by Shoal's own parser."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from shoal.cli.registry import app_for

_TYPED = re.compile(r"(?<![\w./=-])shoal ([a-z]+(?: [^`\n,;|\"]*)?)")
_NUMBERS = {"N": "1"}
_PICTURE = re.compile("[─►]")
_ELSE = {"|", ">", ">>", "&&", "||", "&", ";"}


def parse(words: Sequence[str]) -> None:
    """Read a command as Shoal's own parser does, and run nothing."""
    command, rest = _found(words)
    with command.make_context(words[-len(rest) - 1], rest):
        pass


def parse_mention(words: Sequence[str]) -> None:
    """Read a command that may lack its arguments, as `shoal run --metrics`: what is there must be right."""
    try:
        parse(words)
    except Exception as error:
        if type(error).__name__ not in ("MissingParameter", "BadOptionUsage", "NoArgsIsHelpError"):
            raise
        command, rest = _found(words)
        known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        unknown = {word for word in rest if word.startswith("-")} - known
        assert not unknown, f"{' '.join(words)!r} has no {unknown}"


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that stand anywhere in a text, up to a comma or the end of the line."""
    for typed in _TYPED.findall(text):
        yield tuple(shlex.split(f"shoal {typed}", comments=True))


def in_shell(block: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands of Shoal in a block as it is typed into a shell."""
    for line in re.sub(r" *\\\n *", " ", block).splitlines():
        if _PICTURE.search(line) or not re.search(r"(?:^|\| |\$ )shoal [a-z]", line):
            continue
        words = shlex.split(line, comments=True)
        yield _first_command(words[words.index("shoal") :])


def in_span(code: str) -> Iterator[tuple[str, ...]]:
    """Yield the command of a short piece of code: each choice by itself, without what may be left out."""
    if not re.match(r"shoal [a-z]", code):
        return
    plain = re.sub(r" \[[^\]]*\]", "", code.replace("FILE[:NAME]", "FILE")).replace(r"\|", "|")
    plain = " ".join(_NUMBERS.get(word, word) for word in plain.split(" ") if word != "…")
    for choice in _choices(plain):
        yield _first_command(shlex.split(choice))


def _found(words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return a command, and the words behind its name."""
    command, rest = typer.main.get_command(app_for(words[1])), list(words[1:])
    while hasattr(command, "commands"):
        is_whole = command.invoke_without_command and len(words) - len(rest) > 1
        if is_whole and (not rest or rest[0] not in command.commands):
            break
        if not rest and len(words) == 2:
            break  # a group by itself lists its commands
        assert rest and rest[0] in command.commands, f"there is no command {' '.join(words)!r}"
        command = command.commands[rest.pop(0)]
    return command, rest


def _choices(code: str) -> Iterator[str]:
    several = re.search(r"[a-zA-Z]+(?:\|[a-zA-Z]+)+", code)
    if several is None:
        yield code
        return
    for one in several[0].split("|"):
        yield from _choices(code.replace(several[0], one))


def _first_command(words: list[str]) -> tuple[str, ...]:
    end = next((place for place, word in enumerate(words) if word in _ELSE), len(words))
    return tuple(words[:end])
