"""The fields of a form, as a browser would submit it unchanged."""

from collections.abc import Iterator
from typing import Any

from shoal.scrape.node import Node

CONTROLS = "input[name], select[name], textarea[name]"
NOT_SENT = frozenset({"button", "file", "image", "reset", "submit"})
IF_CHECKED = frozenset({"checkbox", "radio"})


def fields_of(form: Node) -> dict[str, Any]:
    """Return the names and values of a form; a name with several values gets a list."""
    fields: dict[str, list[str]] = {}
    for control in form.css(CONTROLS):
        name = control.attr("name")
        if name and control.attr("disabled") is None and (values := list(_values(control))):
            fields.setdefault(name, []).extend(values)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _values(control: Node) -> Iterator[str]:
    match control.tag:
        case "select":
            yield from _selected_values(control)
        case "textarea":
            yield str(control.xpath("string()")[0])
        case _:
            kind = (control.attr("type") or "text").lower()
            if kind in IF_CHECKED and control.attr("checked") is not None:
                yield _value(control, "on")
            elif kind not in IF_CHECKED | NOT_SENT:
                yield _value(control, "")


def _selected_values(select: Node) -> list[str]:
    options = [one for one in select.css("option") if one.attr("disabled") is None]
    chosen = [one for one in options if one.attr("selected") is not None]
    if select.attr("multiple") is None:
        # The last selected option counts; without any, the first option.
        chosen = chosen[-1:] or options[:1]
    return [_value(one, one.text()) for one in chosen]


def _value(node: Node, default: str) -> str:
    value = node.attr("value")
    return default if value is None else value
