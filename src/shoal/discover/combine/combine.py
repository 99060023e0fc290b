"""Target combinations: every state with every category, as URLs or payloads, generated lazily."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.values import hint
from shoal.discover.combine.axes import Axis, axes_of
from shoal.discover.combine.template import Template
from shoal.discover.source import Found, check_url, make_refusal

Axes = Mapping[str | tuple[str, ...], Iterable[Any]] | Iterable[Axis]


class Combination:
    """A source with a task for every combination of the axes' values; create one with `combine`."""

    def __init__(
        self,
        url: Template | None,
        axes: tuple[Axis, ...],
        *,
        step: str,
        payload: Mapping[str, Template] | None,
        partition: str | None,
        priority: int,
    ) -> None:
        self._url, self._axes, self._payload = url, axes, payload
        self._step, self._partition, self._priority = step, partition, priority
        self._names = [name for axis in axes for name in axis.names]
        self._number = 0

    @property
    def count(self) -> int:
        """The number of combinations, computed without generating them."""
        return prod(len(axis.rows) for axis in self._axes)

    @property
    def where(self) -> str:
        """The number of the last combination."""
        return f"combination {self._number:,} of {self.count:,}"

    def __iter__(self) -> Iterator[Found]:
        # The first axis varies slowest, so that the tasks of a state are adjacent.
        for number, rows in enumerate(product(*(axis.rows for axis in self._axes)), 1):
            self._number = number
            values = dict(zip(self._names, (value for row in rows for value in row), strict=True))
            yield self._make_task(values)

    def _make_task(self, values: dict[str, str]) -> Found:
        text = self._url.fill(values) if self._url else None
        try:
            url = None if text is None else check_url(text)
        except InvalidUrl as error:
            return make_refusal(self.where, text or "", error)
        return Task(
            url=url,
            step=self._step,
            payload=values if self._payload is None else _fill(self._payload, values),
            partition=values[self._partition] if self._partition else "",
            priority=self._priority,
        )


def combine(
    url: str | None,
    axes: Axes,
    *,
    step: str = "main",
    payload: Mapping[str, str] | None = None,
    partition: str | None = None,
    priority: int = LOWEST_PRIORITY,
) -> Combination:
    """Combine `combine("https://example.com/{state}?c={category}", {"state": […], "category": […]})`.

    The payload holds all values unless you give payload templates. Without a URL, a task has only a payload.
    """
    found = axes_of(axes)
    names = [name for axis in found for name in axis.names]
    if not found:
        raise InvalidSetting("axis", "is missing; give at least one, such as state=states.txt")
    if partition is not None and partition not in names:
        raise InvalidSetting("partition", f"{partition!r} is not given by an axis. {hint(partition, names)}")
    template = None if url is None else Template(url, is_url=True)
    payloads = (
        None if payload is None else {key: _payload_template(key, text) for key, text in payload.items()}
    )
    identity = [template] if template else list((payloads or {}).values())
    for part in [*identity, *(payloads or {}).values()]:
        part.check(names)
    if template or payloads:
        _check_all_used(found, {name for part in identity for name in part.names})
    return Combination(template, found, step=step, payload=payloads, partition=partition, priority=priority)


def _payload_template(key: str, text: str) -> Template:
    if not isinstance(text, str):
        raise InvalidSetting(f"payload.{key}", f"must be text such as '{{city}}', got {text!r}")
    return Template(text, is_url=False, key=f"payload.{key}")


def _check_all_used(axes: Iterable[Axis], used: set[str]) -> None:
    for axis in axes:
        if used.isdisjoint(axis.names):
            names = " or ".join(f"{{{name}}}" for name in axis.names)
            raise InvalidSetting(
                "template", f"does not use {names}, so many combinations would be the same task; add it"
            )


def _fill(payload: Mapping[str, Template], values: dict[str, str]) -> dict[str, str]:
    return {key: template.fill(values) for key, template in payload.items()}
