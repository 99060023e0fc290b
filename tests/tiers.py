"""Which tests are of the short tier (`make test`), the long one (`make test-long`) and the full one.

A test that takes long says so: `@pytest.mark.long`. Of a matrix the short tier runs some cases and the long
tier the others. What holds for many tests is here; a test that needs other cases says
`@pytest.mark.short_for(any_bench="redis")`.

`@pytest.mark.shared_rule` says that the variations of a promise differ in code that all backends call, as
they do to refuse what no store may take. The short tier runs each on the model, on SQLite and on one server,
and some on every server. The long tier adds one to each mode of a server; the others are of the full tier.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import pytest

# Of tests with these parameters, the cases of the short tier.
SHORT_CASES: Mapping[str, tuple[str, ...]] = {
    # Both are one program; the shell is what a worker takes first.
    "program": ("chromium-headless-shell",),
}
# Parameters that name a backend. A test of a whole run takes one server in the short tier; one of a promise
# takes every server, and each server takes its share of the variations where there are many.
WHOLE_RUNS, PROMISES = "any_bench", ("store", "stand")
IN_PROCESS = ("model", "sqlite")  # every variation: they take milliseconds
# A mode of the Redis backend, and another server for it. Their short tests are those that say so, such as
# the random histories.
LONG_SERVERS = ("redis-cluster", "valkey")
# Valkey runs the scripts of Redis. What differs would show where leases are given, extended and settled, in
# one variation of each test, and in a few random histories; the rest is of the full tier.
FULL_SERVERS = ("valkey",)
LONG_FILES = ("test_claim.py", "test_leases.py", "test_settle.py", "test_state_machine.py")
CHOSEN_BACKENDS = "SHOAL_TEST_BACKENDS"  # the variable that names the only backends of the conformance tests


class TestTiers:
    """Moves the other cases of each matrix to the long tier."""

    __test__ = False

    @pytest.hookimpl(tryfirst=True)  # before `-m` chooses
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if config.getoption("jobs", 0):
            # Each process is given a share of the list. Mixed, all of them compute and wait at any time.
            items.sort(key=lambda item: crc32(item.nodeid.partition("::")[0].encode()))
        tests: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            tests[item.nodeid.partition("[")[0]].append(item)
        is_whole = not any("::" in arg for arg in config.args) and CHOSEN_BACKENDS not in os.environ
        for name, cases in tests.items():
            is_short = _choice(name, cases)
            long = [item for item in cases if not is_short(item)]
            if is_whole and len(long) == len(cases) and cases[0].get_closest_marker("short_for"):
                raise pytest.UsageError(f"{name}: its short_for leaves no case to the short tier")
            repeats = _repeats(name, cases)
            for item in long:
                item.add_marker(pytest.mark.long)
                if repeats(item) or (_values(item).get("store") in FULL_SERVERS and not _is_kept(item)):
                    item.add_marker(pytest.mark.full)


def _choice(name: str, cases: list[pytest.Item]) -> Callable[[pytest.Item], bool]:
    """Return what tells which cases of a test are of the short tier."""
    marker = cases[0].get_closest_marker("short_for")
    own = marker.kwargs if marker else {}
    values = _values(cases[0])
    if unknown := own.keys() - values.keys():
        raise pytest.UsageError(f"{name}: short_for names {', '.join(unknown)}, which it has not")
    chosen: dict[str, Any] = {key: SHORT_CASES[key] for key in SHORT_CASES.keys() & values.keys()}
    if WHOLE_RUNS in values:
        servers = sorted({_values(item)[WHOLE_RUNS] for item in cases} - {"sqlite"}) or ["sqlite"]
        chosen[WHOLE_RUNS] = servers[crc32(name.encode()) % len(servers)]
    chosen |= own
    shared = next((key for key in PROMISES if key in values and key not in own), None)
    has_turn = _turns(cases, shared) if shared else lambda item: True

    def is_short(item: pytest.Item) -> bool:
        found = _values(item)
        return has_turn(item) and all(_name(found[key]) in _names(chosen[key]) for key in chosen)

    return is_short


def _turns(cases: list[pytest.Item], key: str) -> Callable[[pytest.Item], bool]:
    """Share the variations of a test out among its servers, if every server gets one at least."""
    servers, turn = _servers(cases, key), _numbers(cases, key)
    if len(turn) < len(servers) or not servers:
        return lambda item: _values(item)[key] not in LONG_SERVERS or not servers

    def has_turn(item: pytest.Item) -> bool:
        server = _values(item)[key]
        if server in LONG_SERVERS:
            return False
        return server in IN_PROCESS or turn[_variation(item, key)] % len(servers) == servers.index(server)

    return has_turn


def _is_kept(item: pytest.Item) -> bool:
    """Tell whether a case on a server of the full tier is of the long one, as a few histories are."""
    marker, found = item.get_closest_marker("short_for"), _values(item)
    chosen = {key: cases for key, cases in (marker.kwargs if marker else {}).items() if key != "store"}
    is_chosen = all(_name(found[key]) in _names(cases) for key, cases in chosen.items())
    return is_chosen and item.path.name in LONG_FILES


def _repeats(name: str, cases: list[pytest.Item]) -> Callable[[pytest.Item], bool]:
    """Return what tells which cases of the long tier repeat a variation that other servers run."""
    key = "store"
    if key not in _values(cases[0]) or cases[0].get_closest_marker("short_for"):
        return lambda item: False
    servers, turn = _servers(cases, key), _numbers(cases, key)
    if len(turn) < len(servers) or not servers:
        return lambda item: False
    is_shared = cases[0].get_closest_marker("shared_rule") is not None
    own = crc32(name.encode()) % len(turn)  # the variation of the servers that have none in the short tier

    def is_repeated(item: pytest.Item) -> bool:
        server = _values(item)[key]
        if server in FULL_SERVERS or (is_shared and server in LONG_SERVERS):
            return turn[_variation(item, key)] != own
        return is_shared and server not in IN_PROCESS

    return is_repeated


def _servers(cases: list[pytest.Item], key: str) -> list[str]:
    """Return the servers among the backends of a test that the short tier uses."""
    backends = dict.fromkeys(_values(item)[key] for item in cases)
    return [name for name in backends if name not in (*IN_PROCESS, *LONG_SERVERS)]


def _numbers(cases: list[pytest.Item], key: str) -> dict[str, int]:
    """Number the variations of a test."""
    variations = dict.fromkeys(_variation(item, key) for item in cases)
    return {name: number for number, name in enumerate(variations)}


def _variation(item: pytest.Item, key: str) -> str:
    """Return what a case is but for its backend."""
    return repr([(name, value) for name, value in _values(item).items() if name != key])


def _values(item: pytest.Item) -> Mapping[str, Any]:
    call = getattr(item, "callspec", None)
    return call.params if call else {}


def _name(value: Any) -> Any:
    return getattr(value, "__name__", value)


def _names(cases: Any) -> list[Any]:
    return [_name(case) for case in (cases if isinstance(cases, tuple) else (cases,))]
