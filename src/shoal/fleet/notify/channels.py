"""Where messages go: the tables [notify.NAME] of the project file, and how each kind of channel sends one."""

import asyncio
import base64
import hmac
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from shoal.core.errors import FetchError, HttpStatus, InvalidSetting, InvalidUrl
from shoal.core.http import Request
from shoal.core.notifications import FROM_ENVIRONMENT, SEND_TIMEOUT, Notification, OpenNotifier, Send
from shoal.core.redact import redactor
from shoal.core.urls import canonical, host_of
from shoal.core.values import hint, read_choice, read_text, read_whole, read_words
from shoal.fetch.contract import Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine
from shoal.fleet.project.cluster import read_fields, read_subtable, setting
from shoal.fleet.project.file import Project
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call, is_async
from shoal.worker.process.main import USER_AGENT

LONGEST_SEND = timedelta(seconds=30)  # of a mail or a plugin
MAX_RESPONSE = 64 << 10  # bytes; nobody reads it
KINDS = ("finished", "failed", "suspicious", "warning", "stalled", "dead", "blocked", "missed")
DEFAULT_KINDS = KINDS[1:]  # no news is good news
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_SLACK_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _read_secret(key: str, value: Any) -> str:
    if not _VARIABLE.fullmatch(text := read_text(key, value)):
        raise InvalidSetting(
            key, "must name a variable, 'env:NAME': do not write a secret where others read it"
        )
    return text


def _read_url(key: str, value: Any) -> str:
    text = read_text(key, value)
    if not _VARIABLE.fullmatch(text) and not text.startswith(("https://", "http://")):
        raise InvalidSetting(key, "must be an address such as https://example.com/hook, or 'env:NAME'")
    return text


def _read_events(key: str, value: Any) -> tuple[str, ...]:
    names = read_words(key, value)
    for name in names:
        read_choice(key, name, KINDS)
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """One table [notify.NAME]: what is sent, about which scrapers, and where to."""

    kind: str = setting(read_text, "webhook")
    events: tuple[str, ...] = setting(_read_events, DEFAULT_KINDS)
    scrapers: tuple[str, ...] = setting(read_words, ())  # default: all
    # Of one run, above which the event `dead` is sent.
    dead_letters: int = setting(partial(read_whole, least=0), 100)
    url: str | None = setting(_read_url)
    secret: str | None = setting(_read_secret)  # that signs webhooks
    server: str | None = setting(read_text)  # of mail: HOST:PORT
    tls: str = setting(partial(read_choice, known=("starttls", "tls", "none")), "starttls")
    user: str | None = setting(read_text)
    password: str | None = setting(_read_secret)
    sender: str | None = setting(read_text)
    to: tuple[str, ...] = setting(read_words, ())
    options: Mapping[str, Any] = field(default_factory=dict, metadata={"read": read_subtable})  # of a plugin


class NotSent(Exception):
    """A message could not be sent, with a reason that contains no secret."""


class MissingVariable(InvalidSetting):
    """A variable with a secret is not set."""


class Channel:
    """Sends messages to one place."""

    def __init__(self, name: str, settings: ChannelSettings, where: str) -> None:
        self.name, self.settings, self._where = name, settings, where
        place = (settings.kind, settings.url, settings.server, settings.to, dict(settings.options))
        # Projects that share a queue may have channels of one name.
        self.id = f"{name} {sha256(repr(place).encode()).hexdigest()[:8]}"
        self.missing = ""  # the secret that this process has not: other processes send the messages
        try:
            self._send = self._open()
        except MissingVariable as error:
            self.missing = str(error)

    @property
    def secrets(self) -> list[str]:
        """What must not be shown: its address may be as good as a password."""
        texts = (self.settings.url, self.settings.secret, self.settings.password)
        return [value for text in texts if not self.missing and (value := self._value(text))]

    def wants(self, one: Notification, limit: int | None = None) -> bool:
        """Return whether a message goes there; `limit` is that of an event `dead`."""
        found = self.settings
        is_about = not found.scrapers or one.scraper in (None, *found.scrapers)
        return one.event in found.events and is_about and limit in (None, found.dead_letters)

    async def send(self, one: Notification) -> None:
        """Send a message; raises NotSent."""
        try:
            async with asyncio.timeout(LONGEST_SEND.total_seconds()):
                await self._send(one)
        except Exception as error:  # also what a plugin raises
            reason = str(error) if isinstance(error, FetchError) else f"{type(error).__name__}: {error}"
            if self.settings.server:
                reason = f"{self.settings.server}: {reason}"
            raise NotSent(redactor(self.secrets)(reason)) from None

    def _open(self) -> Send:
        found = self.settings
        opener = NOTIFIERS.find(found.kind)
        if opener is None:
            reason = f"{found.kind!r} is not known. {hint(found.kind, NOTIFIERS.names())}"
            raise InvalidSetting(f"{self._where}.kind", reason)
        if found.kind in NOTIFIERS.builtin:
            if found.password and found.tls == "none":
                reason = "would send the password unencrypted; leave tls out, or user and password"
                raise InvalidSetting(f"{self._where}.tls", reason)
            needs = ("server", "sender", "to") if found.kind == "email" else ("url",)
            for name in needs:
                if not getattr(found, name):
                    raise InvalidSetting(f"{self._where}.{name}", f"is missing, and a {found.kind} needs it")
            given = {name: getattr(found, name) for name in ("server", "tls", "user", "sender", "to")}
            secret = {name: self._value(getattr(found, name)) for name in ("url", "secret", "password")}
            if secret["url"]:
                self._check_url(secret["url"])
            return opener(given | secret)
        return opener(dict(found.options))

    def _check_url(self, url: str) -> None:
        try:
            canonical(url)
        except InvalidUrl:  # whose text has the address, which may be as good as a password
            reason = "must be an address such as https://example.com/hook, without a user name or password"
            raise InvalidSetting(f"{self._where}.url", reason) from None

    def _value(self, text: str | None) -> str | None:
        if text is None or not text.startswith(FROM_ENVIRONMENT):
            return text
        name = text.removeprefix(FROM_ENVIRONMENT)
        if not (value := os.environ.get(name, "")):
            raise MissingVariable(self._where, f"needs the variable {name}. Set it, or write it into .env")
        return value


def read_channels(project: Project, say: Callable[[str], object] = lambda text: None) -> list[Channel]:
    """Return the channels of a project, and say which ones this process cannot use; raises InvalidSetting."""
    found = []
    for name, table in project.notify.items():
        where = project.source_of(f"notify.{name}")
        found.append(channel := Channel(name, read_fields(ChannelSettings, where, table), where))
        if channel.missing:
            say(f"No messages are sent to {name!r} from here: {channel.missing}")
    return found


def _open_webhook(given: Mapping[str, Any]) -> Send:
    """Return what posts JSON, signed as standardwebhooks.com describes it if there is a secret."""

    async def send(one: Notification) -> None:
        body = msgspec.json.encode(one)
        sent_at = str(int(time.time()))  # receivers refuse an old one, and this may be a late attempt
        headers = {"webhook-id": one.id, "webhook-timestamp": sent_at}
        if given["secret"]:
            headers["webhook-signature"] = signature(given["secret"], one.id, sent_at, body)
        await _post(given["url"], body, headers)

    return send


def signature(secret: str, event_id: str, time: str, body: bytes) -> str:
    """Return the signature of a webhook; a secret that begins with `whsec_` is base64."""
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    seal = hmac.new(key, b".".join([event_id.encode(), time.encode(), body]), sha256).digest()
    return f"v1,{base64.b64encode(seal).decode()}"


def _open_slack(given: Mapping[str, Any]) -> Send:
    async def send(one: Notification) -> None:
        sign = {"over": ":white_check_mark:", "once": ":information_source:"}.get(one.state, ":warning:")
        title, text = (_escaped_for_slack(each) for each in (one.title, one.text))
        await _post(given["url"], msgspec.json.encode({"text": f"{sign} *{title}*\n{text}".strip()}), {})

    return send


def _escaped_for_slack(text: str) -> str:
    return "".join(_SLACK_ESCAPES.get(letter, letter) for letter in text)


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    # The operator typed the address, so it may be private; a redirect may not lead to another private one.
    egress = Egress([host_of(url)])
    client = open_engine(
        limits=Limits(max_body=MAX_RESPONSE, max_redirects=0), egress=egress, user_agent=USER_AGENT
    )
    try:
        request = Request(
            url=url,
            post=body,
            headers={"content-type": "application/json", **headers},
            timeout=SEND_TIMEOUT,
        )
        response = await client.fetch(request)
    finally:
        await client.close()
        await egress.close()
    if not 200 <= response.status <= 299:
        raise HttpStatus(response.status, message=f"status {response.status}")


def _load_email() -> OpenNotifier:
    from shoal.fleet.notify.mail import open_email  # its libraries would slow down every run

    return open_email


def _read_notifier(value: object) -> OpenNotifier:
    check_call(value, 1, "it must take the options of its channel, and return an async function of a message")

    def open_it(options: Mapping[str, Any]) -> Send:
        send = value(options)  # type: ignore[operator]
        check_call(send, 1, "it must return an async function of a message")
        if not is_async(send):
            raise TypeError("it must return an async function of a message")
        found: Send = send
        return found

    return open_it


NOTIFIERS: Registry[OpenNotifier] = Registry(
    "shoal.notifiers",
    "notifier",
    {"webhook": lambda: _open_webhook, "slack": lambda: _open_slack, "email": _load_email},
    _read_notifier,
)
