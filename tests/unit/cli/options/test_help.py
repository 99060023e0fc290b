"""What `--help` shows."""

import re
import subprocess
import sys

import pytest
import typer

from shoal.cli.exits import Exit
from shoal.cli.options.groups import NAMES_ELSEWHERE
from shoal.cli.options.help import SECTIONS
from shoal.cli.registry import ALSO, COMMANDS, LINES, MODULES, WITH_MANY_OPTIONS, app_for
from tests.unit.cli.typed import typed

WIDTH = 80
SCREEN = 50  # lines


def shown(*words):
    return subprocess.run(
        [sys.executable, "-m", "shoal", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": str(WIDTH), "PYTHONPATH": ":".join(sys.path)},
    ).stdout


def every_command():
    for name, command in typer.main.get_command(app_for()).commands.items():
        for below, one in getattr(command, "commands", {"": command}).items():
            yield pytest.param(one, id=f"{name} {below}".strip())


def test_every_command_is_listed_in_its_section_and_the_help_fits_one_screen():
    text = shown()
    assert sorted(COMMANDS) == sorted(MODULES)
    for section, lines in LINES.items():
        assert f"\n{section}:\n" in text
        for name, line in lines.items():
            assert re.search(rf"\n  {name} +{re.escape(line)}\n", text), name
        assert f"Also: {', '.join(ALSO[section])}" in " ".join(text.split())
    assert len(text.splitlines()) <= SCREEN
    assert max(map(len, text.splitlines())) < WIDTH


@pytest.mark.parametrize("command", list(every_command()))
def test_every_value_has_a_metavar_that_is_not_its_type(command):
    context = typer.Context(command)
    valued = [param for param in command.params if not getattr(param, "is_flag", False)]
    assert not [param.name for param in valued if re.fullmatch(r"<[a-z ]+>", param.make_metavar(context))]


@pytest.mark.parametrize("command", list(every_command()))
def test_a_default_is_shown_as_it_is_typed(command):
    """Typer puts a default that is given as a text into parentheses."""
    assert not [param.name for param in command.params if isinstance(getattr(param, "show_default", 0), str)]


def test_many_options_are_shown_in_sections():
    text = shown("run")
    places = [text.index(f"\n{name}:\n") for name in ("Options", *SECTIONS)]
    assert places == sorted(places)
    assert text.index("--out") < text.index("--sitemap") < text.index("--proxies") < text.index("--log-dir")


def test_every_option_of_a_section_belongs_to_a_command_with_sections():
    commands = typer.main.get_command(app_for()).commands
    names = {param.name for name in WITH_MANY_OPTIONS for param in commands[name].params}
    assert {name for section in SECTIONS.values() for name in section} <= names


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("doctor", "'check'"),
        ("crawl", "'run'"),
        ("startproject", "'new'"),
        ("submit", "'enqueue'"),
        ("cron", "'schedule'"),
        ("stop", "'pause' or 'cancel'"),
        ("version", "'--version'"),
        ("statsu", "'status'"),  # by its spelling
    ],
)
def test_a_command_of_another_tool_names_the_one_here(word, meant):
    done = typed(word, "x.py")
    assert f"No such command '{word}'. Did you mean {meant}" in done.stderr
    assert done.exit_code == Exit.USAGE


def test_names_of_other_tools_are_no_commands_and_lead_to_one():
    assert not NAMES_ELSEWHERE.keys() & set(COMMANDS)
    for meant in NAMES_ELSEWHERE.values():
        assert {*meant} <= {*COMMANDS, "--version", "--help"}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("run", "x.py", "--rate", "5/s"), "--rate. It is a setting: --set rate=5/s\n"),
        (("run", "--max-pages=3", "x.py"), "--max-pages. It is a setting: --set max_pages=3\n"),
        (("enqueue", "x.py", "--robots", "--url", "u"), "--robots. It is a setting: --set robots=VALUE\n"),
        (
            ("work", "x.py", "--user-agent", "me you"),
            "--user-agent. It is a setting: --set 'user_agent=me you'",
        ),
        (("run", "x.py", "--worker", "4"), "--worker (Possible option"),  # no setting: by its spelling
    ],
)
def test_a_setting_typed_as_an_option_is_refused_with_how_to_type_it(words, meant):
    done = typed(*words)
    assert f"No such option: {meant}" in done.stderr
    assert done.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("export",), "argument 'RUN'. For example: shoal export newest --to books.csv"),
        (("export", "newest"), "option '--to'. For example: shoal export newest --to books.csv"),
        (("new",), "argument 'NAME'. For example: shoal new prices"),
        (("cancel",), "argument 'RUN'. Run id, the start of one, or newest. List them with: shoal runs"),
        (("dead", "show"), "argument 'RUN'. Run id, the start of one"),
    ],
)
def test_what_is_missing_is_named_with_how_to_type_it(words, meant):
    done = typed(*words)
    assert f"Missing {meant}" in done.stderr
    assert done.exit_code == Exit.USAGE


def test_a_setting_with_an_option_of_its_own_is_that_option():
    assert "There is no file x.py" in typed("enqueue", "x.py", "--dedup", "30d", "--url=u").stderr
