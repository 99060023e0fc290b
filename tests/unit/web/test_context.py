"""The settings of the server: unsafe ones are rejected, with what to type."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.web.context import WebSettings
from tests.unit.web.tokens import OPERATOR, READER


@pytest.mark.parametrize(
    "token", ["", "short", "a" * 19, "with space 0123456789abcdef", "ключ" * 10, "x" * 30 + "\n"]
)
def test_a_weak_token_is_rejected_with_what_to_type(token):
    with pytest.raises(InvalidSetting, match=r"at least 20.*export SHOAL_WEB_TOKEN="):
        WebSettings.read(operator_token=token)
    with pytest.raises(InvalidSetting, match="SHOAL_WEB_READER_TOKEN"):
        WebSettings.read(operator_token=OPERATOR, reader_token=token)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "shoal.example"])
def test_a_public_address_needs_a_token(host):
    with pytest.raises(InvalidSetting, match="you must set a token"):
        WebSettings.read(host=host)
    assert WebSettings.read(host=host, operator_token=OPERATOR).is_chosen


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "::1"])
def test_on_loopback_a_new_token_is_generated_each_time(host):
    made = [WebSettings.read(host=host) for _ in range(2)]
    assert made[0].operator_token != made[1].operator_token
    assert len(made[0].operator_token) >= 40
    assert not made[0].is_chosen


def test_the_two_tokens_differ():
    with pytest.raises(InvalidSetting, match="must differ"):
        WebSettings.read(operator_token=OPERATOR, reader_token=OPERATOR)


def test_tokens_are_in_no_repr():
    shown = repr(WebSettings.read(operator_token=OPERATOR, reader_token=READER))
    assert OPERATOR not in shown and READER not in shown


def test_host_names_are_allowed_with_their_own_port_our_port_or_none():
    names = WebSettings.read(
        operator_token=OPERATOR, host="10.0.0.5", allowed_hosts=["shoal.example", "Other.example:444", "::2"]
    ).authorities
    assert {"127.0.0.1:8700", "localhost:8700", "[::1]:8700", "10.0.0.5:8700"} <= names
    assert {"shoal.example", "shoal.example:8700", "other.example:444", "[::2]", "[::2]:8700"} <= names
    assert not {"other.example", "other.example:8700", "localhost", "10.0.0.5"} & names


@pytest.mark.parametrize("name", ["*", "*.example", "https://shoal.example", "a b", ""])
def test_a_host_pattern_or_url_is_rejected(name):
    with pytest.raises(InvalidSetting, match="--allow-host"):
        WebSettings.read(operator_token=OPERATOR, allowed_hosts=[name])
