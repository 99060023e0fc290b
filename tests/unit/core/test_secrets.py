"""The secrets of requests are collected and hidden."""

from base64 import b64encode

import pytest

from shoal.core.secrets import Secrets, begin_secrets, current_secrets, hidden, secret_headers

CANARY = "c4n4ry/+="


@pytest.mark.parametrize(
    "tell",
    [
        lambda secrets: secrets.sent({"X-API-Key": CANARY}),
        lambda secrets: secrets.sent({"Authorization": f"Bearer {CANARY}"}),
        lambda secrets: secrets.sent(
            {"authorization": "Basic " + b64encode(f"me:{CANARY}".encode()).decode()}
        ),
        lambda secrets: secrets.sent({"Cookie": f"theme=dark; sid={CANARY}"}),
        lambda secrets: secrets.sent({}, f"http://me:{CANARY}@proxy:80"),
        lambda secrets: secrets.received(["lang=en", f"sid={CANARY}; Path=/; HttpOnly"]),
        lambda secrets: secrets.received(["sid=c4n4ry%2F%2B%3D"]),
        lambda secrets: secrets.add(CANARY),
    ],
)
def test_sent_and_received_secrets_are_hidden_plain_and_percent_encoded(tell):
    secrets = Secrets()
    tell(secrets)
    said = secrets.hide(f"got {CANARY} from ?key=c4n4ry%2F%2B%3D in English, dark")
    assert said == "got … from ?key=… in English, dark"


def test_short_cookies_of_hosts_do_not_hide_half_of_every_text():
    secrets = Secrets()
    secrets.received(["lang=html", "seen=true"])
    secrets.sent({"cookie": "lang=html; seen=true"})
    assert secrets.hide("It is true that html") == "It is true that html"


def test_a_text_without_secrets_is_unchanged():
    secrets = Secrets()
    secrets.sent({"Accept": "text/html", "User-Agent": "shoal"})
    assert secrets.hide("shoal wants text/html") == "shoal wants text/html"
    assert secret_headers({"Accept": "x", "X-Api-Key": "k", "COOKIE": "c"}) == {
        "x-api-key": "k",
        "cookie": "c",
    }


def test_outside_of_a_task_no_secrets_are_collected():
    assert current_secrets() is None
    assert hidden("as it is") == "as it is"


async def test_a_task_knows_its_own_secrets():
    begin_secrets().add(CANARY)
    assert hidden(f"a {CANARY}") == "a …"
