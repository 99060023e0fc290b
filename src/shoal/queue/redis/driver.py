"""The driver, redis-py, imported without the OpenTelemetry SDK.

Where the SDK is installed, redis-py imports it for one annotation. That took a quarter of the CPU time that a
run on Redis needs before its first request. What redis-py can do with the SDK it still can: it imports it
again when a program turns its metrics on.
"""

import sys

SDK = "opentelemetry.sdk.metrics"

_is_hidden = SDK not in sys.modules
if _is_hidden:
    sys.modules[SDK] = None  # type: ignore[assignment]  # as if it were not installed
try:
    from redis import exceptions
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.cluster import RedisCluster
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
finally:
    if _is_hidden:
        del sys.modules[SDK]

__all__ = ["BlockingConnectionPool", "NoBackoff", "Redis", "RedisCluster", "Retry", "exceptions"]
