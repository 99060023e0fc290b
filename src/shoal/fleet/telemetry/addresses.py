"""The address that a server of metrics or calls listens at."""

from shoal.core.errors import InvalidSetting

HERE = "127.0.0.1"


def read_address(key: str, text: str) -> tuple[str, int]:
    """Read HOST:PORT or PORT, which means loopback; raises InvalidSetting."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidSetting(key, f"takes HOST:PORT or PORT, such as 127.0.0.1:9464, not {text!r}")
    return host.strip("[]") or HERE, int(port)
