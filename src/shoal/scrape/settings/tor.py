"""The setting `tor`: fetch pages through Tor."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting, shorten
from shoal.core.values import hint, read_whole

_OFF, _ON = ("off", "none", "false", "no", ""), ("on", "true", "yes")
_WORDS = ("renew", "torrc")
_EXAMPLE = "write True, or 'renew=50' for a new circuit after every 50 requests to a host"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorSettings:
    """How a worker uses its Tor process."""

    renew: int | None = None  # requests to a host per circuit; None: until a block or a failure
    torrc: Path | None = None  # a file with additional Tor configuration, such as bridges


def read_tor(key: str, value: Any) -> TorSettings | None:
    """Read the Tor settings: True, "renew=50 torrc=bridges.torrc", or a mapping of the same."""
    if isinstance(value, TorSettings):
        return value
    word = value.strip().lower() if isinstance(value, str) else value
    if word is None or word is False or word in _OFF:
        return None
    if word is True or word in _ON:
        return TorSettings()
    if isinstance(value, str):
        return _from_mapping(key, dict(_pair(key, word) for word in value.split()))
    if isinstance(value, Mapping):
        return _from_mapping(key, value)
    raise InvalidSetting(key, f"cannot be {shorten(repr(value), 60)}; {_EXAMPLE}")


def _pair(key: str, word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise InvalidSetting(key, f"cannot be {shorten(repr(word), 60)}; {_EXAMPLE}")
    return name, value


def _from_mapping(key: str, given: Mapping[str, Any]) -> TorSettings:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"has no {str(name)!r}. {hint(str(name), _WORDS)}")
    renew, torrc = given.get("renew"), given.get("torrc")
    return TorSettings(
        renew=None if renew is None else read_whole(f"{key}.renew", renew, least=1),
        torrc=None if torrc is None else _read_file(f"{key}.torrc", torrc),
    )


def _read_file(key: str, value: Any) -> Path:
    path = Path(value) if isinstance(value, (str, Path)) else None
    if path is None or not path.is_file():
        raise InvalidSetting(key, f"must be a Tor configuration file, got {shorten(repr(value), 60)}")
    return path.absolute()
