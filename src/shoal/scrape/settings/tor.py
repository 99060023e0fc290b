"""The setting `tor`: fetch pages through Tor."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.values import read_whole
from shoal.scrape.settings.compact import CompactSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class TorSettings:
    """How a worker uses its Tor process."""

    renew: int | None = None  # requests to a host per circuit; None: until a block or a failure
    torrc: Path | None = None  # a file with additional Tor configuration, such as bridges


def _read_file(key: str, value: Any) -> Path:
    path = Path(value) if isinstance(value, (str, Path)) else None
    if path is None or not path.is_file():
        raise InvalidSetting(key, f"must be a Tor configuration file, got {shorten(repr(value), 60)}")
    return path.absolute()


_TOR = CompactSetting(
    kind=TorSettings,
    fields={"renew": partial(read_whole, least=1), "torrc": _read_file},
    example="True, or 'renew=50' for a new circuit after every 50 requests to a host",
)


def read_tor(key: str, value: Any) -> TorSettings | None:
    """Read the Tor settings: True, "renew=50 torrc=bridges.torrc", or a mapping of the same."""
    return _TOR.read(key, value)
