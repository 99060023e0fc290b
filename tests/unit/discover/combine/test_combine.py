"""Target combinations."""

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Task
from shoal.discover.combine.axes import Axis
from shoal.discover.combine.combine import combine
from shoal.discover.source import Refusal

URL = "https://a.test/{state}/{category}"
AXES = {"state": ["CA", "NY"], "category": ["bars", "law"]}


def urls(combination):
    return [found.url for found in combination]


def test_every_value_meets_every_other_and_the_first_axis_turns_slowest():
    assert urls(combine(URL, AXES)) == [
        "https://a.test/CA/bars",
        "https://a.test/CA/law",
        "https://a.test/NY/bars",
        "https://a.test/NY/law",
    ]


def test_the_values_are_the_payload_and_one_of_them_the_partition():
    (first, *_) = combine(URL, AXES, step="listing", partition="state", priority=3)
    assert first == Task(
        url="https://a.test/CA/bars",
        step="listing",
        payload={"state": "CA", "category": "bars"},
        partition="CA",
        priority=3,
    )


def test_a_payload_may_have_templates_of_its_own():
    (first, *_) = combine(URL, AXES, payload={"q": "{category} in {state}", "kind": "search"})
    assert first.payload == {"q": "bars in CA", "kind": "search"}


def test_without_a_url_the_payload_is_the_task():
    assert list(combine(None, {"user": ["ann", "bob"]})) == [
        Task(payload={"user": "ann"}),
        Task(payload={"user": "bob"}),
    ]


def test_values_are_percent_encoded_wherever_they_stand():
    (url,) = urls(combine("https://a.test/{x}/?q={x}", {"x": ["a/b c&d=é%"]}))
    assert url == "https://a.test/a%2Fb%20c%26d%3D%C3%A9%25/?q=a%2Fb%20c%26d%3D%C3%A9%25"


def test_a_value_may_be_changed_first():
    template = "https://{x:raw}.a.test/{x:slug}/{x:lower}/{x:upper}/{{y}}"
    (url,) = urls(combine(template, {"x": ["New"]}))
    assert url == "https://new.a.test/new/new/NEW/%7By%7D"
    (url,) = urls(combine("https://a.test/{x:slug}", {"x": ["São Paulo (Zona Sul)"]}))
    assert url == "https://a.test/sao-paulo-zona-sul"


def test_a_city_stays_with_its_state():
    axes = {("state", "city"): [("CA", "Fresno"), ("NY", "Utica")], "category": ["bars", "law"]}
    combination = combine("https://a.test/{state}/{city}/{category}", axes, partition="state")
    assert combination.count == 4
    assert [(found.partition, found.payload["city"]) for found in combination] == [
        ("CA", "Fresno"),
        ("CA", "Fresno"),
        ("NY", "Utica"),
        ("NY", "Utica"),
    ]


def test_a_value_that_makes_no_url_is_refused_with_its_place():
    one, two = combine("https://{host}/", {"host": ["a.test", "not a host"]})
    assert one.url == "https://a.test/"
    assert isinstance(two, Refusal)
    assert two.where == "combination 2 of 2"


def test_the_count_is_known_and_nothing_is_made_before_it_is_needed():
    numbers = [str(number) for number in range(1_000)]
    combination = combine("https://a.test/{a}{b}{c}{d}", dict.fromkeys("abcd", numbers))
    assert combination.count == 10**12
    assert next(iter(combination)).url == "https://a.test/0000"


def test_values_that_are_there_twice_count_once():
    assert combine("https://a.test/{x}", {"x": [1, "1", 2]}).count == 2


@pytest.mark.parametrize(
    ("url", "axes", "options", "message"),
    [
        (
            "https://a.test/{stat}",
            AXES,
            {},
            r"template uses {stat}, which no axis has. Did you mean 'state'\?",
        ),
        ("https://a.test/{state}", AXES, {}, "template does not use {category}, so many combinations"),
        ("https://a.test/{state", AXES, {}, "is broken"),
        ("https://a.test/{state.x}", AXES, {}, r"holds {state.x}, which is not a name"),
        ("https://a.test/{state[0]}", AXES, {}, "which is not a name"),
        ("https://a.test/{0}", AXES, {}, "which is not a name"),
        ("https://a.test/{}", AXES, {}, "which is not a name"),
        ("https://a.test/{state!r}", AXES, {}, "which is not a name"),
        ("https://a.test/{state:>9}", AXES, {}, "Known: 'slug', 'lower', 'upper', 'raw'"),
        ("https://a.test/{state:slugg}", AXES, {}, "Did you mean 'slug'"),
        (URL, AXES, {"partition": "stat"}, "partition 'stat' is not given by an axis. Did you mean 'state'"),
        (URL, AXES, {"payload": {"q": "{citty}"}}, "payload.q uses {citty}, which no axis has"),
        (URL, AXES, {"payload": {"q": 5}}, "payload.q must be text"),
        (None, AXES, {"payload": {"q": "{state}"}}, "template does not use {category}"),
        (URL, {}, {}, "axis is missing"),
        (URL, {"state": [], "category": ["x"]}, {}, "axis state has no values"),
        (URL, {"state": "CA", "category": ["x"]}, {}, "axis state must be a list of values, got 'CA'"),
        (URL, {"the state": ["x"]}, {}, "axis 'the state' is not a name"),
        (URL, {("state", "category"): [("x",)]}, {}, "axis state,category needs 2 values per row"),
        (URL, {"state": ["x"], ("state", "category"): [("x", "y")]}, {}, "axis 'state' is in two axes"),
    ],
)
def test_what_does_not_fit_is_named(url, axes, options, message):
    with pytest.raises(InvalidSetting, match=message):
        combine(url, axes, **options)


def test_axes_are_read_from_files_and_from_lists(tmp_path):
    (tmp_path / "states.txt").write_text("\ufeff# US\nCA\r\nNY\n\nCA\n")
    (tmp_path / "cities.csv").write_text("id;city;state\n1;Fresno;CA\n2;Utica;NY\n")
    assert Axis.read(f"state={tmp_path}/states.txt") == Axis(("state",), (("CA",), ("NY",)))
    assert Axis.read(f"state,city={tmp_path}/cities.csv") == Axis(
        ("state", "city"), (("CA", "Fresno"), ("NY", "Utica"))
    )
    assert Axis.read(f"city={tmp_path}/cities.csv").rows == (("Fresno",), ("Utica",))
    assert Axis.read("category: bars, law=firms ,") == Axis(("category",), (("bars",), ("law=firms",)))


@pytest.mark.parametrize("text", ["", "state", "=x.txt", "state=", "state:", "a,,b=x.csv", ":x"])
def test_an_axis_that_is_not_spelled_right_says_how(text):
    with pytest.raises(
        InvalidSetting, match=r"axis takes state=states.txt, state,city=cities.csv or state:CA,NY"
    ):
        Axis.read(text)


def test_an_axis_file_that_does_not_fit_is_named(tmp_path):
    (tmp_path / "cities.csv").write_text("city,state\nFresno,CA\nUtica,\n")
    (tmp_path / "states.txt").write_text("CA\n")
    with pytest.raises(InvalidInput, match=r"cities.csv:3: an empty cell; every row needs state and city"):
        Axis.read(f"state,city={tmp_path}/cities.csv")
    with pytest.raises(InvalidSetting, match=r"axis 'town' is not a column of .*cities.csv"):
        Axis.read(f"town={tmp_path}/cities.csv")
    with pytest.raises(
        InvalidSetting, match=r"axis state,city needs a table with these columns; .*states.txt"
    ):
        Axis.read(f"state,city={tmp_path}/states.txt")
    with pytest.raises(InvalidSetting, match=r"missing.txt cannot be read"):
        Axis.read(f"state={tmp_path}/missing.txt")
