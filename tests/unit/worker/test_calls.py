"""Only those who have the secret are heard, once, and not for long."""

import pytest

from shoal.core.ask import Ask
from shoal.core.model import MINUTE, ZERO, Lease, Task
from shoal.worker.calls import BODY, NONCE, SEAL, TIME, Call, Seal, Unsealed, encode, read_call

NOW = 1_700_000_000.0
ASKED = ("POST", "/w/call", b"body")


@pytest.fixture
def seal():
    return Seal(b"a secret that both have")


def hear(seal, fields, asked=ASKED, now=NOW):
    seal.admit(*asked[:2], fields, now)
    seal.check_body(fields, asked[2])


def test_a_sealed_question_is_heard_once(seal):
    fields = seal.question(*ASKED, NOW)
    hear(seal, fields)
    with pytest.raises(Unsealed, match="before"):
        hear(seal, fields)


@pytest.mark.parametrize(
    "asked", [("GET", "/w/call"), ("POST", "/v/call"), ("POST", "/w/cal"), ("POST/", "w/call")]
)
def test_nothing_of_a_sealed_question_can_be_changed(seal, asked):
    with pytest.raises(Unsealed, match="another secret"):
        seal.admit(*asked, seal.question(*ASKED, NOW), NOW)


def test_a_question_cannot_be_given_another_body(seal):
    with pytest.raises(Unsealed, match="body"):
        hear(seal, seal.question(*ASKED, NOW), ("POST", "/w/call", b"bodz"))


@pytest.mark.parametrize("field", [TIME, NONCE, BODY])
def test_none_of_its_fields_can_be_changed(seal, field):
    fields = seal.question(*ASKED, NOW)
    fields[field] = {TIME: f"{NOW + 1:.3f}", NONCE: "0" * 32, BODY: "0" * 64}[field]
    with pytest.raises(Unsealed, match="another secret"):
        hear(seal, fields)


def test_another_secret_is_not_heard(seal):
    with pytest.raises(Unsealed, match="another secret"):
        hear(seal, Seal(b"a secret of their own").question(*ASKED, NOW))


@pytest.mark.parametrize("late", [-61, 61])
def test_a_question_is_not_heard_outside_of_its_window(seal, late):
    with pytest.raises(Unsealed, match="clocks"):
        hear(seal, seal.question(*ASKED, NOW), now=NOW + late)


def test_a_question_cannot_be_repeated_as_long_as_its_time_is_right(seal):
    fields = seal.question(*ASKED, NOW + 59)
    hear(seal, fields)
    hear(seal, seal.question(*ASKED, NOW + 100), now=NOW + 100)
    with pytest.raises(Unsealed, match="before"):
        hear(seal, fields, now=NOW + 118)


@pytest.mark.parametrize(
    "broken",
    [
        {TIME: ""},
        {TIME: "nan"},
        {TIME: "1e9"},
        {TIME: "²"},
        {TIME: "9" * 400},
        {NONCE: ""},
        {NONCE: "x" * 65},
        {NONCE: "é" * 16},
        {SEAL: ""},
        {SEAL: "0" * 63},
    ],
)
def test_fields_that_make_no_sense_are_refused_before_the_body_is_read(seal, broken):
    with pytest.raises(Unsealed):
        seal.admit(*ASKED[:2], seal.question(*ASKED, NOW) | broken, NOW)


def test_a_seal_that_is_not_hexadecimal_is_refused_and_breaks_nothing(seal):
    with pytest.raises(Unsealed):
        hear(seal, seal.question(*ASKED, NOW) | {SEAL: "é" * 64})


def test_an_answer_holds_for_its_own_question_only(seal):
    made = seal.answer("nonce of one", 200, b"items")
    seal.check_answer("nonce of one", 200, b"items", made)
    for other in [
        ("nonce of two", 200, b"items"),
        ("nonce of one", 503, b"items"),
        ("nonce of one", 200, b""),
    ]:
        with pytest.raises(Unsealed):
            seal.check_answer(*other, made)


@pytest.mark.parametrize("ask", [None, Ask.form({"q": "1"}), Ask(headers={"accept": "text/plain"})])
def test_a_call_brings_all_that_its_task_asks(ask):
    task = Task(url="https://a.example/", ask=ask, payload={"n": 1})
    lease = Lease(run_id="r", task_id="t", token=1, task=task, attempt=1, start_in=ZERO, deadline_in=MINUTE)
    assert read_call(encode(Call(lease=lease))).lease.task == task
