"""Sends messages as mail, by SMTP."""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.notifications import SEND_TIMEOUT, Notification, Send
from shoal.fetch.egress import Egress


def open_email(given: Mapping[str, Any]) -> Send:
    """Return what sends a mail; raises InvalidSetting."""
    host, _, port = str(given["server"]).rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidSetting(
            "server", f"must be HOST:PORT such as smtp.example.com:587, got {given['server']!r}"
        )

    async def send(one: Notification) -> None:
        egress = Egress([str(given["server"]).lower()])
        try:
            await egress.admit(f"http://{given['server']}/")
        finally:
            await egress.close()
        await asyncio.to_thread(_mail, given, host, int(port), mail_of(one, given["sender"], given["to"]))

    return send


def mail_of(one: Notification, sender: str, to: Sequence[str]) -> EmailMessage:
    """Return a message as a mail; the messages of one event have the same id."""
    mail = EmailMessage()
    mail["Subject"] = f"[Shoal] {one.title}".replace("\n", " ")
    mail["From"], mail["To"] = sender, ", ".join(to)
    mail["Message-ID"] = f"<{one.id}@shoal>"
    mail["Date"] = one.at
    mail.set_content(f"{one.text or one.title}\n")
    return mail


def _mail(given: Mapping[str, Any], host: str, port: int, mail: EmailMessage) -> None:
    seconds, context = SEND_TIMEOUT.total_seconds(), ssl.create_default_context()
    if given["tls"] == "tls":
        client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=seconds, context=context)
    else:
        client = smtplib.SMTP(host, port, timeout=seconds)
    with client:
        if given["tls"] == "starttls":
            client.starttls(context=context)
        if given["user"]:
            client.login(given["user"], given["password"] or "")
        client.send_message(mail)
