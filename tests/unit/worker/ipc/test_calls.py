"""A request needs a valid signature, and is accepted once, within a minute."""

import pytest

from shoal.core.model import Task
from shoal.core.request_options import RequestOptions
from shoal.worker.ipc.calls import (
    BODY_HASH,
    NONCE,
    SIGNATURE,
    TIME,
    BadSignature,
    CallRequest,
    Signer,
    encode,
    read_call,
)
from tests.unit.builders import make_lease

NOW = 1_700_000_000.0
REQUEST = ("POST", "/w/call", b"body")


@pytest.fixture
def signer():
    return Signer(b"a shared secret")


def verify(signer, fields, request_line=REQUEST, now=NOW):
    signer.verify_request(*request_line[:2], fields, now)
    signer.verify_body(fields, request_line[2])


def test_a_signed_request_is_accepted_once(signer):
    fields = signer.sign_request(*REQUEST, NOW)
    verify(signer, fields)
    with pytest.raises(BadSignature, match="before"):
        verify(signer, fields)


@pytest.mark.parametrize(
    "request_line", [("GET", "/w/call"), ("POST", "/v/call"), ("POST", "/w/cal"), ("POST/", "w/call")]
)
def test_no_part_of_a_signed_request_can_be_changed(signer, request_line):
    with pytest.raises(BadSignature, match="another secret"):
        signer.verify_request(*request_line, signer.sign_request(*REQUEST, NOW), NOW)


def test_the_body_of_a_signed_request_cannot_be_replaced(signer):
    with pytest.raises(BadSignature, match="body"):
        verify(signer, signer.sign_request(*REQUEST, NOW), ("POST", "/w/call", b"bodz"))


@pytest.mark.parametrize("field", [TIME, NONCE, BODY_HASH])
def test_none_of_its_fields_can_be_changed(signer, field):
    fields = signer.sign_request(*REQUEST, NOW)
    fields[field] = {TIME: f"{NOW + 1:.3f}", NONCE: "0" * 32, BODY_HASH: "0" * 64}[field]
    with pytest.raises(BadSignature, match="another secret"):
        verify(signer, fields)


def test_a_signature_with_another_secret_is_rejected(signer):
    with pytest.raises(BadSignature, match="another secret"):
        verify(signer, Signer(b"another secret").sign_request(*REQUEST, NOW))


@pytest.mark.parametrize("late", [-61, 61])
def test_a_request_outside_its_window_is_rejected(signer, late):
    with pytest.raises(BadSignature, match="clocks"):
        verify(signer, signer.sign_request(*REQUEST, NOW), now=NOW + late)


def test_a_request_cannot_be_replayed_within_its_window(signer):
    fields = signer.sign_request(*REQUEST, NOW + 59)
    verify(signer, fields)
    verify(signer, signer.sign_request(*REQUEST, NOW + 100), now=NOW + 100)
    with pytest.raises(BadSignature, match="before"):
        verify(signer, fields, now=NOW + 118)


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
        {SIGNATURE: ""},
        {SIGNATURE: "0" * 63},
    ],
)
def test_invalid_fields_are_rejected_before_the_body_is_read(signer, broken):
    with pytest.raises(BadSignature):
        signer.verify_request(*REQUEST[:2], signer.sign_request(*REQUEST, NOW) | broken, NOW)


def test_a_response_is_valid_for_its_own_request_only(signer):
    made = signer.sign_response("nonce of one", 200, b"items")
    signer.verify_response("nonce of one", 200, b"items", made)
    for other in [
        ("nonce of two", 200, b"items"),
        ("nonce of one", 503, b"items"),
        ("nonce of one", 200, b""),
    ]:
        with pytest.raises(BadSignature):
            signer.verify_response(*other, made)


@pytest.mark.parametrize(
    "options", [None, RequestOptions.form({"q": "1"}), RequestOptions(headers={"accept": "text/plain"})]
)
def test_a_call_carries_the_request_options_of_its_task(options):
    task = Task(url="https://a.example/", request=options, payload={"n": 1})
    lease = make_lease(task)
    assert read_call(encode(CallRequest(lease=lease))).lease.task == task
