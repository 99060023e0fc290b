"""Which tests are of the short tier (`make test`) and which of the long one (`make test-long`).

A test that takes long says so: `@pytest.mark.long`. Of a matrix the short tier runs some cases and the long
tier the others. What holds for many tests is here; a test that needs other cases says
`@pytest.mark.short_for(any_bench="redis")`.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import pytest

# Of tests with these parameters, the cases of the short tier.
SHORT_CASES: Mapping[str, tuple[str, ...]] = {
    # Both are one program; the shell is what a worker takes first.
    "program": ("chromium-headless-shell",),
}


class TestTiers:
    """Moves the other cases of each matrix to the long tier."""

    __test__ = False

    @pytest.hookimpl(tryfirst=True)  # before `-m` chooses
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        benches: dict[str, set[str]] = defaultdict(set)
        for item in items:
            if "any_bench" in (values := _values(item)):
                benches[_test(item)].add(values["any_bench"])
        for item in items:
            if not _is_short(item, benches[_test(item)]):
                item.add_marker(pytest.mark.long)


def _is_short(item: pytest.Item, benches: set[str]) -> bool:
    values, marker = _values(item), item.get_closest_marker("short_for")
    own = marker.kwargs if marker else {}
    if unknown := own.keys() - values.keys():
        raise pytest.UsageError(f"{item.nodeid}: short_for names {', '.join(unknown)}, which it has not")
    chosen: dict[str, Any] = {name: SHORT_CASES[name] for name in SHORT_CASES.keys() & values.keys()}
    if benches:
        chosen["any_bench"] = _bench_of(item, benches)
    return all(_name(values[name]) in _tuple(cases) for name, cases in (chosen | own).items())


def _bench_of(item: pytest.Item, benches: set[str]) -> str:
    """Return the backend of a test of whole runs: one server each, so that all of them have their share.

    Every promise of a backend by itself is in tests/conformance, short on all of them.
    """
    servers = sorted(benches - {"sqlite"}) or ["sqlite"]
    return servers[crc32(_test(item).encode()) % len(servers)]


def _values(item: pytest.Item) -> Mapping[str, Any]:
    call = getattr(item, "callspec", None)
    return call.params if call else {}


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _name(value: Any) -> Any:
    return getattr(value, "__name__", value)


def _tuple(cases: Any) -> tuple[Any, ...]:
    return cases if isinstance(cases, tuple) else (cases,)
