"""The commands that messages, help texts and pages of the control room show, read from the source."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import typer

import shoal
from shoal.cli.registry import COMMANDS, app_for

SOURCE = Path(shoal.__file__).parent
FILES = sorted(str(file.relative_to(SOURCE)) for kind in ("*.py", "*.html") for file in SOURCE.rglob(kind))
# Functions that return a command, and how many of their arguments come before its words.
MAKERS = {"shoal_command": 0, "run_command": 0, "command_line": 0, "command_on": 1}
_MENTION = re.compile(rf"(?<![\w./=$-])shoal (?!import)|\bshoal\(|{'|'.join(MAKERS)}")
_NOT_COMMANDS = re.compile(r"from shoal import")
_COMMAND = re.compile(r"(?<![\w./=$-])shoal [a-z]+[^\n`\"<]*")
# Where a sentence goes on behind a command.
_END = re.compile(r"[.:;,)]+(?: |$)| \(|, |  | and | with | was | does| prints| writes| promises| &&| --help")


def may_show_command(file):
    """Return whether a file may show a command, without the time that it takes to parse it."""
    return _MENTION.search((SOURCE / file).read_text()) is not None


def texts(file):
    """Yield the texts of a file that may show a command; x stands for a value."""
    source = (SOURCE / file).read_text()
    if file.endswith(".html"):
        source = re.sub(r'\bshoal\("', '("shoal ', source)
        yield re.sub(r'" ~ \w+(?:\.\w+)* ~ "|" ~ \w+(?:\.\w+)*', "x", re.sub(r"\{\{[^\"]*?\}\}", "x", source))
        return
    inner = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (command := made_command(node)):
            inner |= {id(one) for one in ast.walk(node)}
            yield command
        elif id(node) in inner:
            continue
        elif isinstance(node, ast.JoinedStr):
            inner |= {id(one) for one in node.values}
            yield text_of(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def shown_texts(file):
    """Yield the texts of a file that a user meets outside of a help text."""
    helps = set()
    if file.endswith(".py"):
        for node in ast.walk(ast.parse((SOURCE / file).read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                helps.add(ast.get_docstring(node, clean=False))
    return (text for text in texts(file) if text not in helps)


def made_command(call):
    """Return the command that a call makes, if it is written there; None for other calls."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name not in MAKERS:
        return None
    words = [text for each in call.args[MAKERS[name] :] if (text := text_of(each))]
    is_written = bool(words) and words[:2] != ["dead", "x"]
    return " ".join(["shoal", *words]) if is_written else None


def text_of(node):
    """Return the text of a literal; x stands for a value."""
    match node:
        case ast.JoinedStr():
            return "".join(one.value if isinstance(one, ast.Constant) else "x" for one in node.values)
        case ast.Constant(value=str(text)):
            return text
        case ast.Name() | ast.Attribute():
            return "x"
        case ast.Call(args=[ast.List(elts=words)]):  # joined([…])
            return " ".join(filter(None, map(text_of, words)))
    return None


def commands_in(text):
    """Yield the commands in a text; one without the arguments that it needs is a mention."""
    for found in _COMMAND.finditer(_NOT_COMMANDS.sub("", text)):
        command = _END.split(found[0].replace(" …", ""))[0]
        if command.split()[1] in COMMANDS and command != "shoal dead":
            yield command


def shape_of(command):
    """Return what a command is, without its values: its name and its options."""
    words = shlex.split(command.replace("'", "") if command.count("'") % 2 else command)[1:]
    length = 2 if len(words) > 1 and words[1] in _below(words[0]) else 1
    return " ".join(words[:length]), frozenset(word for word in words[length:] if word.startswith("-"))


@cache
def _below(name):
    """Return the names of the commands below one."""
    found = getattr(typer.main.get_command(app_for(name)), "commands", {}).get(name)
    return frozenset(getattr(found, "commands", ()))
