"""Errors of pages that could not be fetched."""

from datetime import timedelta

from shoal.core.errors.base import ShoalError
from shoal.core.text import shorten


class FetchError(ShoalError):
    """The page could not be fetched."""


class FetchTimeout(FetchError):
    """The request timed out."""


class ConnectFailed(FetchError):
    """Could not connect to the host."""


class DnsFailed(ConnectFailed):
    """The host's name could not be resolved."""


class NoSuchHost(DnsFailed):
    """The host's name does not exist."""


class TlsFailed(ConnectFailed):
    """The TLS handshake failed, or the host's certificate is not trusted."""


class ProxyFailed(ConnectFailed):
    """The proxy failed; `is_sure` says that the target host cannot be the cause."""

    def __init__(self, proxy: str, reason: str, *, is_sure: bool = True) -> None:
        self.proxy, self.reason, self.is_sure = proxy, reason, is_sure
        super().__init__(f"Proxy {proxy}: {reason}")


class ProxyRefused(ProxyFailed):
    """The proxy rejected the request."""


class PageCrashed(FetchError):
    """The page's tab, or the whole browser, crashed."""


class BrokenAnswer(FetchError):
    """The response was cut off, or is not HTTP."""


class HttpStatus(FetchError):
    """The host returned an error status."""

    def __init__(
        self, status: int, *, retry_after: timedelta | None = None, message: str | None = None
    ) -> None:
        self.status, self.retry_after = status, retry_after
        super().__init__(message or f"The host returned status {status}")


class Blocked(HttpStatus):
    """The host rejects requests for now: a rate limit or a block page."""


class TooLarge(FetchError):
    """The page is larger than the size limit."""


class WrongFileType(FetchError):
    """The file has a type that the download does not accept."""


class RobotsDenied(FetchError):
    """robots.txt does not allow this page."""


class RobotsUnavailable(FetchError):
    """robots.txt cannot be fetched at the moment, so no page of the host may be requested."""


class OutOfScope(FetchError):
    """The page is outside the scraper's scope."""


class PrivateAddress(OutOfScope):
    """The page is at a private host that is not allowed."""

    def __init__(self, host: str, what: str) -> None:
        self.host, self.what = host, what
        super().__init__(
            f"{host} is {what}, which is not fetched unless you allow it: --allow-private {host}"
        )


class NotRecorded(OutOfScope):
    """The page is missing from the recording."""

    def __init__(self, url: str, record: str) -> None:
        self.url, self.record = url, record
        super().__init__(
            f"{shorten(url)} is not in {record}, and a playback makes no network requests. "
            f"Record it with: shoal run … --warc NEW_FILE.warc.gz, without --playback"
        )


class ParseFailed(FetchError):
    """The page could not be parsed."""
