"""Which tests are of the short tier (`make test`) and which of the long one (`make test-long`).

A test that takes long says so: `@pytest.mark.long`. Of a matrix the short tier runs some cases and the long
tier the others. What holds for every such matrix is in the table here; a test that needs other cases says
`@pytest.mark.short_for(any_bench="redis")`.
"""

from collections.abc import Mapping
from typing import Any

import pytest

# Of tests with these parameters, the cases of the short tier.
SHORT_CASES: Mapping[str, tuple[str, ...]] = {
    # Whole runs. Every promise of a backend by itself is in tests/conformance, short on all of them.
    "any_bench": ("postgres", "rabbitmq"),
    # Both are one program; the shell is what a worker takes first.
    "program": ("chromium-headless-shell",),
}


class TestTiers:
    """Moves the other cases of each matrix to the long tier."""

    __test__ = False

    @pytest.hookimpl(tryfirst=True)  # before `-m` chooses
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if not _is_short(item):
                item.add_marker(pytest.mark.long)


def _is_short(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    values: Mapping[str, Any] = call.params if call else {}
    marker = item.get_closest_marker("short_for")
    own = marker.kwargs if marker else {}
    if unknown := own.keys() - values.keys():
        raise pytest.UsageError(f"{item.nodeid}: short_for names {', '.join(unknown)}, which it has not")
    chosen = {name: SHORT_CASES[name] for name in SHORT_CASES.keys() & values.keys()} | own
    return all(_name(values[name]) in _tuple(cases) for name, cases in chosen.items())


def _name(value: Any) -> Any:
    return getattr(value, "__name__", value)


def _tuple(cases: Any) -> tuple[Any, ...]:
    return cases if isinstance(cases, tuple) else (cases,)
