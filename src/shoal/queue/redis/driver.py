"""The driver, redis-py, imported without modules that it needs for nothing that Shoal does with it.

Where OpenTelemetry is installed, redis-py imports its SDK and its metrics for two annotations. It imports
`importlib.metadata` to read its own version from the files of its package, again for every connection. All
of that took half of the CPU time that a run on Redis needs before its first request. What redis-py can do
with these modules it still can: it gets them when it first uses them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

SDK, METRICS, METADATA = "opentelemetry.sdk.metrics", "opentelemetry.metrics", "importlib.metadata"


class LazyModule(ModuleType):
    """Stands for a module that is imported when something else than its known names is read."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # which an import statement reads, to see whether it is a package
            raise AttributeError(name)
        _forget(self)
        return getattr(import_module(self.__name__), name)


def _forget(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


@contextmanager
def _imported_later() -> Iterator[None]:
    """Let what is imported meanwhile get these modules later, or, as if it were not installed, no SDK."""
    lazy = [LazyModule(name) for name in (METRICS, METADATA) if name not in sys.modules]
    is_sdk_hidden = SDK not in sys.modules
    if is_sdk_hidden:
        sys.modules[SDK] = None  # type: ignore[assignment]
    for module in lazy:
        module.__dict__["Meter"] = Any  # of the metrics, for an annotation
        sys.modules[module.__name__] = module
    try:
        yield
    finally:
        for module in lazy:
            _forget(module)
        if is_sdk_hidden:
            sys.modules.pop(SDK, None)


with _imported_later():
    from redis import __version__, exceptions
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.cluster import RedisCluster
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

# What a connection says of the driver to the server. Without it, redis-py 8 looks its version up.
DRIVER: dict[str, Any] = {}
try:
    from redis.driver_info import DriverInfo
except ModuleNotFoundError:
    pass
else:
    DRIVER["driver_info"] = DriverInfo(lib_version=__version__)

__all__ = ["DRIVER", "BlockingConnectionPool", "NoBackoff", "Redis", "RedisCluster", "Retry", "exceptions"]
