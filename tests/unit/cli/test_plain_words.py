"""Help, messages, docs, pages, docstrings and comments use the plain technical word."""

import ast
import re
from pathlib import Path

import pytest

import shoal.cli
from shoal.core import errors

# The word to avoid, as a regular expression, and the plain word for it.
PLAIN = {
    r"com(?:e|es|ing) home": "is fetched",
    r"came home": "was fetched",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"whoever": "the user, the worker, the client",
    r"thereby": "and so",
    r"at hand": "cached, available",
    r"let(?:s|ting)? go of": "release, close",
    r"nobody is asked|asks? nobody": "no request is sent",
    r"guests?": "client, user",
    r"strangers?": "another program, an unknown client",
    r"what parts": "delimiter",
    r"keepers?": "supervisor",
    r"nurser(?:y|ies)": "fork server",
    r"crews?": "worker pool",
    r"guises?": "identity",
    r"manners": "host backoff",
    r"hitherto|herewith|whereof|thereof": "so far, with this, of which, of it",
}
# In docs and comments these have their usual meaning.
IN_MESSAGES = {r"so many": "N", r"questions?": "request", r"patience": "timeout"}


def compiled(words):
    return {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): plain for word, plain in words.items()}


WORDS, MESSAGE_WORDS = compiled(PLAIN), compiled(PLAIN | IN_MESSAGES)
# To look for one word after the other in four million characters takes seconds.
ANY_WORD = re.compile(rf"\b(?:{'|'.join(PLAIN)})\b")
# An address is not prose: amqp://guest@host.
ADDRESS = re.compile(r"\S+://\S+")
ROOT = Path(__file__).parents[3]


def wrong_words(text, words=MESSAGE_WORDS):
    """Return every word of the list in a text, with the plain word beside it."""
    prose = ADDRESS.sub("", text)
    return [
        f"{found[0]!r}: write {plain!r}" for word, plain in words.items() for found in word.finditer(prose)
    ]


def message_files():
    for file in sorted(Path(shoal.cli.__file__).parent.rglob("*.py")):
        yield pytest.param(file, id=file.stem)
    yield pytest.param(Path(errors.__file__), id="errors")


@pytest.mark.parametrize("file", list(message_files()))
def test_messages_use_plain_words(file):
    texts = (node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant))
    # A text without a space is a name, not prose.
    prose = " ".join(text for text in texts if isinstance(text, str) and " " in text)
    assert wrong_words(prose) == []


def read_by_people():
    """Yield every text of the repository that is read by its users or its programmers."""
    yield from ROOT.glob("*.md")
    for folder in ("docs", "examples", "deploy", "src"):
        for file in (ROOT / folder).rglob("*"):
            is_ours = not {"vendor", "__pycache__", "node_modules"} & set(file.parts)
            if is_ours and file.suffix in {".md", ".py", ".html", ".sql", ".lua", ".yaml", ".toml", ".js"}:
                yield file


def test_docs_pages_and_sources_use_plain_words():
    found = {
        str(file.relative_to(ROOT)): wrong
        for file in read_by_people()
        if ANY_WORD.search((text := file.read_text()).lower()) and (wrong := wrong_words(text, WORDS))
    }
    assert found == {}


def test_a_wrong_word_is_reported_with_the_plain_one():
    assert wrong_words("Mend it first") == ["'Mend': write 'fix'"]
    assert wrong_words("Recommended: fix it") == []
