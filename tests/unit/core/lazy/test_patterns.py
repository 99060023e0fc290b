"""Regular expressions are compiled at the first use, and work like the standard library's."""

import re
import subprocess
import sys

import pytest

from shoal.core.lazy.patterns import lazy_pattern


def test_methods_and_attributes_are_those_of_the_compiled_pattern():
    words = lazy_pattern(r"[a-z]+", re.IGNORECASE)
    assert words.findall("One, two") == ["One", "two"]
    assert words.sub("-", "One, two") == "-, -"
    assert words.fullmatch("One")
    assert not words.fullmatch("1")
    assert words.pattern == r"[a-z]+"
    assert repr(words) == repr(re.compile(r"[a-z]+", re.IGNORECASE))


def test_bytes_can_be_searched_too():
    assert lazy_pattern(rb"\d+").search(b"page 12")[0] == b"12"


def test_a_pattern_is_compiled_at_its_first_use_and_not_before():
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("")


def test_what_a_run_imports_compiles_few_patterns():
    counts = (
        "import re._compiler as c\n"
        "compiled, standard = [], c.compile\n"
        "c.compile = lambda text, flags=0: compiled.append(text) or standard(text, flags)\n"
        "import asyncio, logging, typer.main, msgspec, protego, turbohtml, turbohtml.detect\n"
        "libraries = len(compiled)\n"
        "import shoal.worker.process.main, shoal.fleet.run.launch, shoal.cli.main\n"
        "print(len(compiled) - libraries)"
    )
    done = subprocess.run([sys.executable, "-c", counts], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10
