"""Break one guarantee at a time in a copy of this tree, and see whether the tests notice.

The guarantees are in `mutations.toml`, each with the text that keeps it, one that does not, and the tests in
which the short tier should notice. A mutation that no test notices is a test that is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".toml")
TIERS = {"short": "not long and not alone and not full", "long": "(long or alone) and not full"}
FAILED, NO_TESTS = 1, 5  # exit codes of pytest
_FIRST = re.compile(r"^(FAILED|ERROR) (\S+?::.+?)(?: - .*)?$", re.MULTILINE)


class WrongList(Exception):
    """The list of mutations does not fit the tree, or a name is not in it."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A guarantee, and how to break it."""

    name: str
    guarantee: str
    harm: str  # what a user suffers without it
    file: str
    old: str  # occurs once in the file
    new: str
    tests: list[str]  # files or folders
    only: str = ""  # for `pytest -k`


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the tests said to one mutation."""

    name: str
    tier: str = ""  # in which it was noticed
    test: str = ""  # that failed first
    seconds: float = 0.0
    trouble: str = ""  # why nothing can be said

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed that passes without the mutation."""
        return bool(self.tier)


def read_list(path: Path = LIST) -> list[Mutation]:
    """Read the mutations; raises WrongList for one that is incomplete, or a name that occurs twice."""
    try:
        found = [Mutation(**fields) for fields in tomllib.loads(path.read_text())["mutation"]]
    except TypeError as error:
        raise WrongList(f"{path.name}: {error}") from error
    names = [mutation.name for mutation in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WrongList(f"{path.name} holds more than one {twice[0]!r}")
    return found


def choose(mutations: Sequence[Mutation], only: Sequence[str]) -> list[Mutation]:
    """Return those that are named, all without names; raises WrongList for a name that is not there."""
    known = {mutation.name for mutation in mutations}
    for name in only:
        if name not in known:
            raise WrongList(f"No mutation is called {name!r}. Run: make mutations ARGS=--list")
    return [mutation for mutation in mutations if not only or mutation.name in only]


def check(root: Path, mutations: Sequence[Mutation]) -> None:
    """Raise WrongList unless each text to replace occurs exactly once in its file, and each test is there."""
    for mutation in mutations:
        file = root / mutation.file
        count = file.read_text().count(mutation.old) if file.is_file() else 0
        if count != 1:
            raise WrongList(f"{mutation.name}: `old` occurs {count} times in {mutation.file}, must be once")
        if mutation.old == mutation.new:
            raise WrongList(f"{mutation.name}: `new` is the same as `old`")
        for path in mutation.tests:
            if not (root / path).exists():
                raise WrongList(f"{mutation.name}: there is no {path}")


@contextmanager
def mutated(root: Path, mutation: Mutation) -> Iterator[None]:
    """Break a guarantee in this tree, and mend it afterwards."""
    check(root, [mutation])
    file = root / mutation.file
    before, times = file.read_text(), file.stat()
    file.write_text(before.replace(mutation.old, mutation.new))
    try:
        yield
    finally:
        file.write_text(before)
        # Python takes a compiled module for current if the time and the size of its source are the same.
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def copy_tree(source: Path, target: Path) -> None:
    """Copy the files that git tracks or would track, as they are now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    # A repository of its own, for tests that ask git what is ignored.
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)


def environment(root: Path) -> dict[str, str]:
    """Return the variables with which Python, and what it starts, imports from this tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}


def check_imports(root: Path) -> Path:
    """Return where `shoal` is imported from; raises WrongList if that is another tree."""
    code = "import shoal; print(shoal.__file__)"
    # In another folder, as tests do that start processes.
    asked = subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env=environment(root),
        check=True,
        capture_output=True,
        text=True,
    )
    found = Path(asked.stdout.strip())
    if not found.is_relative_to(root):
        raise WrongList(f"The tests would import {found}, which is not the copy")
    return found


def first_failure(output: str) -> tuple[str, str] | None:
    """Return FAILED or ERROR and the test of the first line in which pytest says so."""
    found = _FIRST.search(output)
    return (found[1], found[2]) if found else None


def run_tests(root: Path, tier: str, tests: Sequence[str], only: str = "") -> tuple[int, str]:
    """Run the tests of a tier until the first one fails; return the exit code and what pytest printed."""
    options = ["-x", "-q", "--timeout", "120", "-p", "no:cacheprovider", "-m", TIERS[tier]]
    command = [sys.executable, "-m", "pytest", *options, *(["-k", only] if only else []), *tests]
    ended = subprocess.run(command, cwd=root, env=environment(root), capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def try_one(root: Path, mutation: Mutation) -> Finding:
    """Break a guarantee, run its tests, and then the test that failed without the mutation."""
    began = time.monotonic()
    for tier in TIERS:
        with mutated(root, mutation):
            code, output = run_tests(root, tier, mutation.tests, mutation.only)
        seconds = time.monotonic() - began
        if code in (0, NO_TESTS):
            continue
        kind, test = first_failure(output) or ("", "")
        if code != FAILED or kind != "FAILED":
            # A module that cannot be imported or a server that does not start says nothing of the guarantee.
            said = output.strip().splitlines()[-8:]
            return Finding(
                name=mutation.name, seconds=seconds, trouble="\n".join([f"exit code {code}", *said])
            )
        code, output = run_tests(root, tier, [test])
        if code:
            return Finding(
                name=mutation.name, seconds=seconds, trouble=f"{test} fails without the mutation too"
            )
        return Finding(name=mutation.name, tier=tier, test=test, seconds=seconds)
    return Finding(name=mutation.name, seconds=time.monotonic() - began)


def table(findings: Sequence[Finding]) -> str:
    """Return the findings as a table in Markdown."""
    lines = ["| mutation | noticed by | tier | seconds |", "|---|---|---|---|"]
    for one in findings:
        noticed = f"`{one.test}`" if one.is_noticed else one.trouble.partition("\n")[0] or "**nothing**"
        lines.append(f"| {one.name} | {noticed} | {one.tier or '-'} | {one.seconds:.0f} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Try the mutations that are named, all by default; 1 unless every one is noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="may be repeated")
    parser.add_argument("--list", action="store_true", help="print names and guarantees, and run nothing")
    options = parser.parse_args(words)
    try:
        chosen = choose(read_list(), options.only)
        check(ROOT, chosen)
        if options.list:
            print("\n".join(f"{one.name}: {one.guarantee}" for one in chosen))
            return 0
        return _try_all(chosen)
    except WrongList as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _try_all(mutations: Sequence[Mutation]) -> int:
    findings = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder).resolve()
        copy_tree(ROOT, copy)
        print(f"The tests import {check_imports(copy)}", file=sys.stderr, flush=True)
        for mutation in mutations:
            finding = try_one(copy, mutation)
            findings.append(finding)
            said = f"noticed by {finding.test}" if finding.is_noticed else finding.trouble or "not noticed"
            print(f"{finding.seconds:4.0f} s  {finding.name}: {said}", file=sys.stderr, flush=True)
    print(table(findings))
    return 0 if all(finding.is_noticed for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
