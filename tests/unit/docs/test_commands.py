"""Every command of Shoal that a page shows is one that Shoal has, with the options that it takes."""

import os

import pytest

from tests.unit.docs.commands import in_shell, in_span, parse, parse_mention
from tests.unit.docs.pages import ALL, blocks, name_of, spans

SHELL = ("", "sh")
PAGES = {name_of(page): page.read_text() for page in ALL}
TYPED = {
    name: [words for block in blocks(text) if block.language in SHELL for words in in_shell(block.code)]
    for name, text in PAGES.items()
}
MENTIONED = {
    name: list(dict.fromkeys(words for span in spans(text) for words in in_span(span)))
    for name, text in PAGES.items()
}


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Nothing of this machine's environment stands in for an option."""
    for name in list(os.environ):
        if name.startswith("SHOAL_"):
            monkeypatch.delenv(name)


def read(parser, commands):
    for words in commands:
        try:
            parser(words)
        except Exception as error:
            pytest.fail(f"{' '.join(words)}: {error!r}")


@pytest.mark.parametrize("name", [name for name, commands in TYPED.items() if commands])
def test_the_parser_takes_every_command_that_is_to_be_typed(name):
    read(parse, TYPED[name])


@pytest.mark.parametrize("name", [name for name, commands in MENTIONED.items() if commands])
def test_the_parser_knows_every_command_that_is_spoken_of(name):
    read(parse_mention, MENTIONED[name])


def test_commands_are_found_in_blocks_and_in_lines():
    assert len(TYPED["docs/how-to/sources.md"]) >= 9
    assert ("shoal", "dead", "replay", "RUN") in MENTIONED["docs/reference/cli.md"]


@pytest.mark.parametrize("typed", ["shoal run --metrix", "shoal dead lost RUN", "shoal wurk"])
def test_a_mention_of_what_is_not_there_would_be_noticed(typed):
    with pytest.raises(Exception, match=r"No such option|has no|there is no command"):
        parse_mention(typed.split())


@pytest.mark.parametrize(
    ("block", "commands"),
    [
        ("shoal run a.py --set 'x=1 2'  # a reason\n", [("shoal", "run", "a.py", "--set", "x=1 2")]),
        ("shoal run a.py \\\n    --json > out\n", [("shoal", "run", "a.py", "--json")]),
        ("cat urls | shoal enqueue a.py --urls-file -\n", [("shoal", "enqueue", "a.py", "--urls-file", "-")]),
        ("$ shoal tokens\ntoken  state\n", [("shoal", "tokens")]),
        ("Serving Shoal at http://127.0.0.1:8700\npip install shoal\n", []),
    ],
)
def test_a_block_is_read_as_a_shell_would(block, commands):
    assert list(in_shell(block)) == commands


@pytest.mark.parametrize(
    ("span", "commands"),
    [
        ("shoal status [RUN]", [("shoal", "status")]),
        (r"shoal dead list\|show RUN", [("shoal", "dead", "list", "RUN"), ("shoal", "dead", "show", "RUN")]),
        ("shoal run … --resume RUN", [("shoal", "run", "--resume", "RUN")]),
        ("shoal.toml", []),
    ],
)
def test_what_may_be_left_out_and_what_is_chosen_is_understood(span, commands):
    assert list(in_span(span)) == commands
