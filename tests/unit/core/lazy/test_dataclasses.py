"""Classes are made faster than by the standard library, and are the same otherwise."""

import copy
import dataclasses
import pickle
import subprocess
import sys

import pytest

from shoal.core.lazy.dataclasses import MAX_UNCOMPILED, dataclass, maker_of, used_by_imports, write_inits

STANDARD = dataclasses.dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)
    secret: str = dataclasses.field(default="", repr=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """A point."""

    x: int
    y: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)
    secret: str = dataclasses.field(default="", repr=False, compare=False)


@dataclass(slots=True)
class Mutable:
    """Positional, not frozen, checked."""

    x: int
    y: int = 0

    def __post_init__(self):
        self.y += 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Ours):
    """A subclass that the standard decorator makes."""

    z: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OurSubclass(Ours):
    """A subclass that our decorator makes."""

    z: int = 3


@dataclass(slots=True)
class OurWithState(Mutable):
    """A subclass with fields that are no parameters."""

    seen: list[int] = dataclasses.field(default_factory=list, init=False)
    count: int = dataclasses.field(default=7, init=False)
    last: int = dataclasses.field(init=False, compare=False)


@dataclasses.dataclass(slots=True)
class WithState(Mutable):
    """The same by the standard decorator."""

    seen: list[int] = dataclasses.field(default_factory=list, init=False)
    count: int = dataclasses.field(default=7, init=False)
    last: int = dataclasses.field(init=False, compare=False)


@dataclass(frozen=True, slots=True)
class Empty:
    """No fields."""


BOTH = pytest.mark.parametrize("kind", [Ours, Standard])


@BOTH
def test_fields_defaults_and_representation_are_the_same(kind):
    one = kind(x=1, secret="s")
    assert (one.x, one.y, one.tags, one.secret) == (1, 2, [], "s")
    assert repr(one) == f"{kind.__name__}(x=1, y=2, tags=[])"
    assert kind(x=1).tags is not kind(x=1).tags
    assert [each.name for each in dataclasses.fields(kind)] == ["x", "y", "tags", "secret"]
    assert dataclasses.asdict(one) == {"x": 1, "y": 2, "tags": [], "secret": "s"}
    assert kind.__match_args__ == ()


@BOTH
def test_equality_and_hash_are_of_the_compared_fields(kind):
    assert kind(x=1, secret="a") == kind(x=1, secret="b")
    assert kind(x=1) != kind(x=2)
    assert kind(x=1) != (1, 2, [])
    assert hash(kind(x=1, tags=())) == hash(kind(x=1, tags=(), secret="b"))


@BOTH
def test_a_frozen_one_cannot_be_changed_but_replaced_copied_and_pickled(kind):
    one = kind(x=1, tags=["a"], secret="s")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert dataclasses.replace(one, x=5) == kind(x=5, tags=["a"])
    again = pickle.loads(pickle.dumps(one))
    assert (again, again.secret) == (one, "s")
    assert copy.deepcopy(one).tags == ["a"]
    assert not hasattr(one, "__dict__")


@BOTH
def test_wrong_arguments_are_refused_in_the_same_words(kind):
    for _ in range(2):  # the first call, which writes the method, and a later one
        with pytest.raises(TypeError, match=f"{kind.__name__}.__init__.. missing 1 required keyword-only"):
            kind()
        with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
            kind(x=1, w=2)
        with pytest.raises(TypeError, match="takes 1 positional argument"):
            kind(1)


def test_one_that_is_not_frozen_can_be_changed_and_has_no_hash():
    one = Mutable(1)
    one.x = 4
    assert one == Mutable(4, 0)
    assert (one.y, Mutable.__match_args__) == (1, ("x", "y"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


SUBCLASSES = pytest.mark.parametrize("kind", [Derived, OurSubclass])
MANY = range(MAX_UNCOMPILED + 2)


@SUBCLASSES
def test_subclasses_work(kind):
    for _ in MANY:
        assert kind(x=1) == kind(x=1, z=3) != kind(x=1, z=4)
        assert kind(x=1) != Ours(x=1)
        assert hash(kind(x=1, tags=())) == hash(kind(x=1, tags=(), secret="b"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind(x=1).z = 2
    assert pickle.loads(pickle.dumps(kind(x=1))) == kind(x=1)


@pytest.mark.parametrize("kind", [WithState, OurWithState])
def test_fields_that_are_no_parameters_get_their_defaults(kind):
    for _ in MANY:
        one = kind(1)
        assert (one.x, one.y, one.seen, one.count, hasattr(one, "last")) == (1, 1, [], 7, False)
        assert one.seen is not kind(1).seen
        with pytest.raises(TypeError, match="unexpected keyword argument 'count'"):
            kind(1, count=8)
        with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments but 4 were given"):
            kind(1, 2, 3)
        with pytest.raises(TypeError, match="multiple values for argument 'x'"):
            kind(1, x=2)


def test_the_fields_of_the_first_objects_are_set_without_compiling():
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2

    lazy = Point.__init__
    points = [Point(n) for n in range(MAX_UNCOMPILED)]
    assert Point.__init__ is lazy
    points += [Point(8, 2), Point(9, y=2)]
    assert Point.__init__ is not lazy
    assert [(one.x, one.y) for one in points] == [(n, 2) for n in range(10)]


def test_wrong_arguments_of_the_first_object_are_refused():
    for arguments, message in (
        ((1, 2, 3), "takes from 2 to 3 positional"),
        ((), "missing 1 required"),
    ):

        @dataclass(frozen=True, slots=True)
        class Point:
            x: int
            y: int = 2

        with pytest.raises(TypeError, match=message):
            Point(*arguments)


def test_classes_without_fields_work():
    assert Empty() == Empty()
    assert len({Empty(), Empty()}) == 1


def test_the_initializers_can_be_compiled_before_the_first_use():
    @dataclass(slots=True)
    class Point:
        x: int
        y: int = 2

    lazy = Point.__init__
    write_inits(Point)
    compiled = Point.__init__
    assert compiled is not lazy and Point(1) == Point(1, 2)
    write_inits(Point)
    assert Point.__init__ is compiled


@BOTH
def test_an_object_made_from_its_fields_in_order_is_like_any_other(kind):
    one, other = maker_of(kind)(1, 2, ["a"], "s"), kind(x=1, tags=["a"])
    assert type(one) is kind
    assert (one, one.secret, repr(one)) == (other, "s", repr(other))
    assert dataclasses.replace(one, x=5) == kind(x=5, tags=["a"])
    assert pickle.loads(pickle.dumps(one)) == other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'secret'"):
        maker_of(kind)(1, 2, [])
    assert maker_of(kind) is maker_of(kind)


def test_a_field_that_holds_its_own_object_can_be_shown():
    one = Mutable(1)
    one.x = one
    assert repr(one) == "Mutable(x=..., y=1)"


@pytest.mark.slow
def test_most_classes_of_a_run_are_not_made_by_the_standard_library():
    counts = (
        "import dataclasses; made = []; make = dataclasses._process_class\n"
        "def counted(cls, init, *more): made.append(init); return make(cls, init, *more)\n"
        "dataclasses._process_class = counted\n"
        "import shoal.cli.commands.crawl.run, shoal.fleet.run.launch, shoal.worker.process.main\n"
        "own = made.count(False)\n"
        "print(own, len(made) - own)"
    )
    found = subprocess.run([sys.executable, "-c", counts], capture_output=True, text=True, check=True)
    ours, standard = map(int, found.stdout.split())
    assert ours > 2 * standard


def test_modules_that_are_imported_meanwhile_get_the_fast_decorator():
    with used_by_imports():
        from dataclasses import dataclass as given

        @given(frozen=True)
        class Options:
            """Options of a library."""

            width: int = 80

        @given(order=True)
        class Version:
            """What only the standard decorator makes."""

            number: int

    assert Options.__init__.__code__.co_varnames[:2] == ("self", "args")  # not written yet
    assert Options(width=3) == Options(3) != Options()
    assert Version(1) < Version(2)
    assert dataclasses.dataclass is STANDARD


def test_the_dataclasses_of_the_parser_are_made_by_the_fast_decorator():
    looks = (
        "from shoal.scrape.parsing import html; html.load(); import turbohtml\n"
        "print(turbohtml.Markdown.__repr__.__module__, turbohtml.Markdown().links.style)"
    )
    done = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["shoal.core.lazy.dataclasses", "inline"]


def test_a_class_without_a_docstring_gets_its_name():
    @dataclass
    class Bare:
        x: int

    assert Bare.__doc__ == "Bare"
