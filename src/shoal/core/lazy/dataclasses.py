"""The standard library's `dataclass`, with methods that classes share or that are written at the first use.

The standard decorator compiles six functions for every frozen class, in about a millisecond. A command
imports 150 such classes and uses some of them: that was a quarter of the start of `shoal run`. Most of those
have an object or two.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as standard_dataclass
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # what type checkers see
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True):
        """Make a class a dataclass: the same fields, equality, hash and errors as the standard one."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        # Without a docstring the standard decorator writes one from the signature, in several milliseconds.
        cls.__doc__ = cls.__doc__ or cls.__name__
        if not METHODS.isdisjoint(cls.__dict__):
            return standard_dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)
        # It refuses a subclass of a frozen dataclass that is not frozen, and else compiles methods for it.
        is_subclass = frozen and any(map(dataclasses.is_dataclass, cls.__mro__))
        made = standard_dataclass(
            cls, init=False, repr=False, eq=False, frozen=is_subclass, slots=slots, kw_only=kw_only
        )
        _add_methods(made, frozen=frozen, eq=eq)
        return made


Made = TypeVar("Made")
OPTIONS = {"frozen", "slots", "kw_only", "eq"}


@contextmanager
def used_by_imports() -> Iterator[None]:
    """Give this decorator to the modules of other packages that are imported meanwhile."""

    def choose(cls: Any = None, /, **options: Any) -> Any:
        return dataclass(cls, **options) if options.keys() <= OPTIONS else standard_dataclass(cls, **options)

    dataclasses.dataclass = choose
    try:
        yield
    finally:
        dataclasses.dataclass = standard_dataclass


# Most classes have few objects, whose fields are set one by one in a tenth of the time that compiling takes.
MAX_UNCOMPILED = 8
METHODS = {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__"}


def _add_methods(cls: Any, *, frozen: bool, eq: bool) -> None:
    # They are what the standard decorator looks at when it makes a subclass.
    params = cls.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
    cls.__init__, cls.__repr__ = _write_init_later(cls), _repr
    if eq:
        _add_equality(cls, frozen=frozen)
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_assignment, _refuse_deletion
        cls.__getstate__, cls.__setstate__ = _get_state, _set_state


def _add_equality(cls: Any, *, frozen: bool) -> None:
    names = [each.name for each in fields(cls) if each.compare]
    read: Callable[[Any], Any] = attrgetter(*names) if names else type

    def __eq__(self: Any, other: object) -> Any:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(read(self))

    cls.__eq__, cls.__hash__ = __eq__, __hash__ if frozen else None


def _write_init_later(cls: Any) -> Callable[..., None]:
    """Return an `__init__` that sets the fields of the first objects by name, and then compiles another."""
    count = 0

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        nonlocal count
        count += 1
        values = _values(cls, args, named) if count <= MAX_UNCOMPILED else None
        if values is None:
            cls.__init__ = write_init(cls)
            cls.__init__(self, *args, **named)
            return
        set_field = object.__setattr__ if cls.__dataclass_params__.frozen else setattr
        for name, value in values.items():
            set_field(self, name, value)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _values(cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
    """Return the value of each field; None if the arguments do not fit, which a compiled `__init__` says."""
    values: dict[str, Any] = {}
    unused, unused_names = list(reversed(args)), set(named)
    for each in fields(cls):
        if unused and each.init and not each.kw_only:
            values[each.name] = unused.pop()
        elif each.init and each.name in named:
            values[each.name] = named[each.name]
            unused_names.remove(each.name)
        elif each.default is not MISSING:
            values[each.name] = each.default
        elif each.default_factory is not MISSING:
            values[each.name] = each.default_factory()
        elif each.init:
            return None
    return None if unused or unused_names else values


def write_inits(*classes: Any) -> None:
    """Compile the `__init__` of these classes now: before a fork, for all processes."""
    for cls in classes:
        if cls.__init__.__module__ == __name__:  # else it is compiled, or the standard library's
            cls.__init__ = write_init(cls)


def write_init(cls: Any) -> Callable[..., None]:
    """Compile the `__init__` of a class; that of a frozen one sets its slots without a lookup by name."""
    names: dict[str, Any] = {"MISSING": MISSING, "set_attribute": object.__setattr__}
    known: tuple[Field[Any], ...] = fields(cls)
    given = [each for each in known if each.init]
    parameters = ["self", *(_parameter(each, names) for each in given if not each.kw_only)]
    if any(each.kw_only for each in given):
        parameters += ["*", *(_parameter(each, names) for each in given if each.kw_only)]
    lines = [_assignment(cls, each, names) for each in known if each.init or _has_default(each)]
    lines.append("self.__post_init__()" if hasattr(cls, "__post_init__") else "pass")
    exec("\n ".join([f"def __init__({', '.join(parameters)}):", *lines]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {each.name: each.type for each in given} | {"return": None}
    return init


def write_maker(cls: type[Made]) -> Callable[..., Made]:
    """Return a function that makes an object of a frozen class with slots from its fields, in their order.

    For what is read by the thousand: without keywords, defaults and `__post_init__`, in a fifth of the time.
    """
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    # A frozen object refuses every assignment; one of an open class with the same slots can become one.
    known: dict[str, Any] = {"Open": type(cls.__name__, (), {"__slots__": tuple(names)}), "frozen_class": cls}
    lines = ["made = Open()", *(f"made.{name} = {name}" for name in names), "made.__class__ = frozen_class"]
    exec("\n ".join([f"def make({', '.join(names)}):", *lines, "return made"]), known)
    make: Callable[..., Made] = known["make"]
    return make


if TYPE_CHECKING:
    maker_of = write_maker  # `cache` hides the type of what it returns
else:
    maker_of = cache(write_maker)


def _has_default(field: "Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _parameter(field: "Field[Any]", names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=MISSING"
    if field.default is MISSING:
        return field.name
    names[f"default_{field.name}"] = field.default
    return f"{field.name}=default_{field.name}"


def _assignment(cls: Any, field: "Field[Any]", names: dict[str, Any]) -> str:
    name = value = field.name
    if field.default_factory is not MISSING:
        names[f"make_{name}"] = field.default_factory
        value = f"make_{name}() if {name} is MISSING else {name}" if field.init else f"make_{name}()"
    elif not field.init:
        names[f"default_{name}"] = field.default
        value = f"default_{name}"
    if not cls.__dataclass_params__.frozen:
        return f"self.{name} = {value}"
    slot = cls.__dict__.get(name)
    if not hasattr(slot, "__set__"):
        return f"set_attribute(self, {name!r}, {value})"
    names[f"set_{name}"] = slot.__set__
    return f"set_{name}(self, {value})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_assignment(_self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
