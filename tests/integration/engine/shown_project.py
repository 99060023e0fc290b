"""A folder in which commands are typed, and which collects the commands that they show."""

import asyncio
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from shoal.cli.exits import Exit
from tests.integration.engine import shell
from tests.unit.cli.shown import shape_of
from tests.unit.cli.typed import typed

TIMEOUT = 90.0
SUCCESS = (Exit.OK, Exit.PARTIAL, Exit.LIMIT_REACHED)
QUEUE = "sqlite:///my queue.db"
STARTS_WORKERS = ("run", "work", "fleet", "enqueue")
_SHOWN = re.compile(r"(?<![\w./=$-])shoal [a-z]+ ?[^\n`<]*")
# Where a sentence goes on behind a command; a quoted word may contain any of these.
_END = re.compile(r"(?:\. [A-Z]|\.$|, then |, and there|; |  )")


@dataclass
class Project:
    """Types commands in a folder, and collects the commands that they show."""

    site: str
    shown: dict = field(default_factory=dict)  # the first text that shows it, by command
    typed: set = field(default_factory=set)  # shapes of commands

    def type(self, *words, code=Exit.OK, queue=QUEUE):
        """Type a command; return what it printed."""
        return self._type([*words, "--queue", queue], (code,), None)

    def paste(self, command, *, answer="y\n", codes=SUCCESS):
        """Type a command as it was shown; return what it printed."""
        first, *words = shlex.split(command)
        assert first == "shoal", command
        printed = self._type(words, codes, answer)
        assert "error:" not in printed, f"{command} says:\n{printed}"
        self.typed.add(shape_of(without_queue(command)))
        return printed

    def _type(self, words, codes, answer):
        if words[0] in STARTS_WORKERS:  # a process of its own: what it has opened ends with it
            done = asyncio.run(asyncio.wait_for(shell.typed(*words, folder=Path.cwd()), TIMEOUT))
            code, printed = done.code, done.err + done.out
        else:
            done = typed(*words, answer=answer)
            code, printed = done.exit_code, done.stderr + done.stdout
        assert code in codes, f"{shlex.join(words)} ended with {code}:\n{printed}"
        if words[0] != "new":  # which says to change the folder first
            for command in shown_in(printed):
                self.shown.setdefault(command, printed)
        return printed

    def forget(self, run_id):
        """Forget what was shown of a run that is about to change."""
        self.shown = {command: text for command, text in self.shown.items() if run_id not in command}

    def read(self, done):
        """Collect what a command has shown that has no queue."""
        for command in shown_in(done.stderr + done.stdout):
            self.shown.setdefault(command, done.stderr)


def shown_in(text):
    """Yield the commands in a text, each as it is typed."""
    for found in _SHOWN.finditer(text):
        command = _END.split(found[0])[0].strip().rstrip(".")
        if command.count("'") % 2:  # it ends inside a quoted text of JSON
            command = command.rpartition("'")[0]
        yield command.partition('"')[0] if command.count('"') % 2 else command


def without_queue(command):
    words = shlex.split(command)
    return shlex.join([word for place, word in enumerate(words) if not _is_queue(words, place)])


def _is_queue(words, place):
    return "--queue" in (words[place], words[place - 1])


def name_of(command):
    return shape_of(without_queue(command))[0]


def without_values(command):
    name, options = shape_of(without_queue(command))
    return [f"{name} {option}" for option in options]


def labels_of(text):
    """Return the words before the commands of the closing lines."""
    return {line.partition(":")[0] for line in text.splitlines() if ": " in line and "shoal " in line}


def fill(project, command):
    """Return a command with values in place of what stands for one."""
    for word, value in {
        "run … ": f"run books.py --url {project.site}/ ",
        "https://…": f"{project.site}/",
        "--url …": f"--url {project.site}/",
        "--proxies …": "--proxies proxies.txt",
        "FILE": "books.py",
    }.items():
        command = command.replace(word, value)
    return command


def row_of(text):
    return json.loads(text.strip().splitlines()[-1])
