"""Run pytest, then run a few failed tests once more by themselves: `python -m tools.retried 3 -q tests`.

A test that fails beside thousands of others and passes by itself is unsteady: a defect of the test or of the
product that someone has to find, but no verdict on the change at hand. It is named here and in `UNSTEADY`. A
second failure is final, and so are more failures than the given number.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# A cache of its own: the common one remembers failures of earlier runs too.
CACHE = Path("build/retried")
UNSTEADY = Path("build/unsteady.txt")
TESTS_FAILED = 1  # pytest's exit code


def main(max_retried: int, args: Sequence[str]) -> int:
    """Return the exit code of pytest, 0 where every failed test passes by itself."""
    shutil.rmtree(CACHE, ignore_errors=True)
    code = _pytest(*args)
    failed = _failed() if code == TESTS_FAILED else []
    if not 0 < len(failed) <= max_retried:
        return code
    _say(f"{len(failed)} failed; running them once more, by themselves")
    if _pytest("-q", *failed):
        return TESTS_FAILED
    _say("unsteady, failed beside other tests and passed by themselves:", *failed)
    with UNSTEADY.open("a") as file:
        file.writelines(f"{name}\n" for name in failed)
    return 0


def _pytest(*args: str) -> int:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={CACHE.absolute()}", *args]
    return subprocess.run(command).returncode


def _failed() -> list[str]:
    file = CACHE / "v" / "cache" / "lastfailed"
    return list(json.loads(file.read_text())) if file.exists() else []


def _say(*lines: str) -> None:
    print(*lines, sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
