"""Prints the tests that failed in the last run of pytest, one a line."""

import json
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")

if __name__ == "__main__":
    for name in json.loads(LAST_FAILED.read_text()) if LAST_FAILED.exists() else ():
        print(name)
