"""Parsing of settings values."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import RunState
from shoal.core.values import (
    hint,
    rate_of,
    read_choice,
    read_duration,
    read_flag,
    read_pair,
    read_positive_duration,
    read_priority,
    read_range,
    read_rate,
    read_since,
    read_size,
    read_text,
    read_whole,
    read_words,
)

SECOND = timedelta(seconds=1)

DURATIONS = [
    ("30s", 30),
    ("5m", 300),
    ("5 min", 300),
    ("1h", 3600),
    ("1h30m", 5400),
    ("1.5h", 5400),
    ("2d", 172_800),
    ("500ms", 0.5),
    ("1.5s", 1.5),
    ("30", 30),
    (" 30S ", 30),
    (30, 30),
    (0.25, 0.25),
    (0, 0),
    (timedelta(minutes=2), 120),
]
NOT_DURATIONS = [
    "",
    "soon",
    "5 parsecs",
    "-5s",
    -1,
    "5m!",
    "m5",
    "1h30",
    "1e9",
    "\uff19m",
    None,
    True,
    [],
    float("nan"),
    float("inf"),
    1e300,
]

RATES = [
    ("5/s", 0.2),
    ("30/min", 2),
    ("600/h", 6),
    ("0.5/s", 2),
    ("5 / s", 0.2),
    ("5 per s", 0.2),
    ("4", 0.25),
    (5, 0.2),
    (0.5, 2),
    (None, 0),
    ("none", 0),
    ("None", 0),
    ("null", 0),
]
NOT_RATES = ["", "fast", "5/fortnight", "0/s", 0, -1, "-1/s", True, float("nan"), float("inf"), 1e-300, []]

SIZES = [
    ("32 MB", 32 << 20),
    ("500KB", 500 << 10),
    ("1gb", 1 << 30),
    ("1.5 MiB", 3 << 19),
    ("100", 100),
    (7, 7),
]


@pytest.mark.parametrize(("written", "seconds"), DURATIONS)
def test_a_duration_is_read(written, seconds):
    assert read_duration("timeout", written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", NOT_DURATIONS, ids=repr)
def test_an_invalid_duration_is_rejected_with_an_example(written):
    with pytest.raises(InvalidSetting, match=r"^timeout must be a duration such as '30s'"):
        read_duration("timeout", written)


def test_some_durations_must_not_be_zero():
    assert read_positive_duration("lease", "1s") == SECOND
    with pytest.raises(InvalidSetting, match="lease must be more than zero, got 0"):
        read_positive_duration("lease", 0)


def test_a_time_is_a_date_or_a_duration_before_now():
    now = datetime(2026, 2, 15, 12, tzinfo=UTC)
    assert read_since("since", "2026-01-31", now) == datetime(2026, 1, 31, tzinfo=UTC)
    assert read_since("since", "7d", now) == now - timedelta(days=7)
    assert read_since("since", now, now) == now
    with pytest.raises(
        InvalidSetting, match="since must be a date such as 2026-01-31 or a duration such as 7d, got 'soon'"
    ):
        read_since("since", "soon", now)


@pytest.mark.parametrize(("written", "gap"), RATES)
def test_a_rate_is_read_as_the_gap_between_two_starts(written, gap):
    assert read_rate("rate", written) == timedelta(seconds=gap)


@pytest.mark.parametrize("written", NOT_RATES, ids=repr)
def test_an_invalid_rate_is_rejected_with_an_example(written):
    with pytest.raises(InvalidSetting, match=r"^rate must be a rate such as '5/s', .* None for no gap"):
        read_rate("rate", written)


@pytest.mark.parametrize(
    ("written", "shortest", "longest"),
    [
        ("8-20s", 8, 20),
        ("8s-1m", 8, 60),
        ("8 - 20 s", 8, 20),
        ("0.5-2", 0.5, 2),
        ((8, 20), 8, 20),
        (["8s", "20s"], 8, 20),
        ("5s", 5, 5),
        (5, 5, 5),
    ],
)
def test_a_range_of_durations_is_read(written, shortest, longest):
    assert read_range("pause", written) == (timedelta(seconds=shortest), timedelta(seconds=longest))


@pytest.mark.parametrize("written", ["20-8s", (20, 8), "a-b", "1-2-3", (1, 2, 3), "-5s"])
def test_an_invalid_range_is_rejected(written):
    with pytest.raises(InvalidSetting, match=r"^pause must"):
        read_range("pause", written)


def test_a_negative_duration_is_shown_as_it_was_typed():
    with pytest.raises(InvalidSetting, match="got '-1s'"):
        read_range("pause", "-1s")


@pytest.mark.parametrize(("written", "size"), SIZES)
def test_a_size_is_read(written, size):
    assert read_size("max_body", written) == size


@pytest.mark.parametrize("written", ["", "big", "-1 MB", 0, -5, 1.5, True, None])
def test_an_invalid_size_is_rejected(written):
    with pytest.raises(InvalidSetting, match=r"^max_body must be a size such as '32 MB'"):
        read_size("max_body", written)


def test_a_whole_number_is_read_from_text_too():
    assert read_whole("retries", "3", least=0) == read_whole("retries", 3, least=0) == 3


@pytest.mark.parametrize("written", [-1, 11, 1.5, True, "x", "", "1e3", None, "9" * 100])
def test_a_number_out_of_bounds_is_rejected_with_the_bounds(written):
    with pytest.raises(InvalidSetting, match="retries must be a whole number from 0 to 10"):
        read_whole("retries", written, least=0, most=10)


def test_a_flag_is_read_from_text_too():
    assert read_flag("robots", True) is read_flag("robots", "on") is read_flag("robots", "YES") is True
    assert read_flag("robots", False) is read_flag("robots", "off") is read_flag("robots", "0") is False
    for written in ("perhaps", 1, None, ""):
        with pytest.raises(InvalidSetting, match="robots must be True or False"):
            read_flag("robots", written)


def test_a_wrong_choice_lists_the_known_ones():
    with pytest.raises(InvalidSetting, match="mode must be 'single' or 'distributed', got 'both'"):
        read_choice("mode", "both", ("single", "distributed"))
    with pytest.raises(InvalidSetting, match="state must be 'running' or 'paused'"):
        read_choice("state", "x", [RunState.RUNNING, RunState.PAUSED])


def test_one_word_is_as_good_as_a_list_of_them():
    assert read_words("allow_private", "localhost") == ("localhost",)
    assert read_words("allow_private", ["a", "b"]) == ("a", "b")
    for written in (5, [5], [""], None, ["a\nb"]):
        with pytest.raises(InvalidSetting, match="allow_private must be a text or a list of texts"):
            read_words("allow_private", written)


@pytest.mark.parametrize(("written", "priority"), [(0, 0), (9, 9), ("5", 5), (" 7 ", 7)])
def test_a_priority_is_read(written, priority):
    assert read_priority("priority", written) == priority


@pytest.mark.parametrize("written", [-1, 10, "10", "12", "", " ", "-1", 5.0, True, None, "high"])
def test_an_invalid_priority_is_rejected(written):
    with pytest.raises(InvalidSetting, match="priority must be a whole number from 0 to 9"):
        read_priority("priority", written)


def test_a_text_is_one_line():
    assert read_text("partition", "") == "" and read_text("partition", "CA") == "CA"
    for written in (5, None, "a\nb", ["a"]):
        with pytest.raises(InvalidSetting, match="partition must be one line of text"):
            read_text("partition", written)


def test_a_hint_suggests_the_nearest_word_or_lists_the_known_ones():
    assert hint("stat", ["state", "city"]) == "Did you mean 'state'?"
    assert hint("zzz", ["state", "city"]) == "Known: 'state', 'city'."
    assert hint("zzz", [f"a{number}" for number in range(50)]).endswith("'a19', ….")


@pytest.mark.parametrize("text", ["5/s", "30/min", "1/h", "0.5/h", "90/h"])
def test_a_rate_that_is_shown_is_read_as_the_same_delay(text):
    delay = read_rate("rate", text)
    assert read_rate("rate", rate_of(delay)) == delay


def test_a_pair_is_split_at_its_first_sign():
    assert read_pair("-a", " tag = a=b", "tag=life") == ("tag", " a=b")
    for text in ("tag", "=life", ""):
        with pytest.raises(InvalidSetting, match="-a takes NAME=VALUE such as tag=life"):
            read_pair("-a", text, "tag=life")
