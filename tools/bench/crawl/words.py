"""Text that reads like a manual, from dice."""

import random
from html import escape

_SUBJECTS = (
    "The scheduler",
    "A worker",
    "This option",
    "Each handler",
    "The parser",
    "An empty value",
    "The cache",
)
_VERBS = (
    "returns",
    "keeps",
    "replaces",
    "ignores",
    "raises an error for",
    "waits for",
    "copies",
    "validates",
)
_OBJECTS = (
    "the current session",
    "every open connection",
    "the previous state",
    "a list of names",
    "the given timeout",
    "bytes that cannot be decoded",
    "the naïve default",
    "the caller's arguments",
)
_TAILS = (
    "",
    " when it is called twice",
    " unless told otherwise",
    ", since version 3.2",
    " on all platforms",
)
_NOUNS = (
    "Session",
    "Buffer",
    "Stream",
    "Context",
    "Policy",
    "Adapter",
    "Registry",
    "Signal",
    "Window",
    "Cursor",
    "Token",
    "Filter",
    "Schema",
    "Column",
    "Socket",
    "Loader",
    "Packet",
    "Matrix",
    "Theme",
    "Queue & Lock",
    "Déjà-vu Cache",
)
_DEEDS = ("Configuring", "Testing", "Extending", "Tuning", "Debugging", "Migrating", "Using", "Understanding")


def sentence(dice: random.Random) -> str:
    """Return one sentence, as plain text."""
    parts = (dice.choice(_SUBJECTS), dice.choice(_VERBS), dice.choice(_OBJECTS))
    return f"{' '.join(parts)}{dice.choice(_TAILS)}."


def heading(dice: random.Random) -> str:
    """Return a heading, as plain text."""
    return f"{dice.choice(_DEEDS)} the {dice.choice(_NOUNS)}"


def name(dice: random.Random) -> str:
    """Return a name as it stands in code."""
    return f"{dice.choice(_NOUNS).split()[0].lower()}_{dice.randint(0, 99)}"


def code(dice: random.Random) -> str:
    """Return a line of coloured code, as HTML."""
    words = [
        f'<span class="n">{escape(name(dice))}</span>',
        '<span class="o">=</span>',
        f'<span class="k">await</span> <span class="nf">{escape(name(dice))}</span><span class="p">(</span>',
        f'<span class="s2">&quot;{escape(name(dice))}&quot;</span><span class="p">,</span>',
        f'<span class="mi">{dice.randint(0, 9_999)}</span><span class="p">)</span>',
    ]
    return " ".join(words)
