"""The scripts, the connections to one Redis, plain or a cluster, and the retries when one is lost."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import sha1
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import msgspec
from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from shoal.core.errors import HandshakeFailed, InvalidSetting, QueueError, QueueUnavailable, UnknownRun
from shoal.core.model import SECOND
from shoal.queue.address import check_files
from shoal.queue.outages import CancellationCheck, Outage, RetryUntil, handshake_problem, is_closed
from shoal.queue.redis.address import FILE_OPTIONS, read
from shoal.queue.redis.errors import (
    SlotMoving,
    is_read_only,
    is_temporary,
    lost_shard,
    reason_of,
    translate_error,
)

Result = TypeVar("Result")
Argument = bytes | str | int

MAX_CONNECTIONS = 8
MIN_CALL_TIMEOUT = SECOND / 2
CALL_TIMEOUT = 10 * SECOND  # after that the connection is given up, and the call repeated
MICROSECOND = timedelta(microseconds=1)


class Script(msgspec.Struct, frozen=True):
    """A script as it is sent to the server, and the digest under which the server caches it."""

    name: str
    text: str
    sha: str


def make_script(name: str, libraries: Sequence[str], body: str) -> Script:
    """Return a script: its first library, in it a function of the others, in that a function of the body.

    For every function that a script makes, and for every local name of the block around it that it uses,
    Lua 5.1 searches a list of all such names. It does not search for names of a block further out. One block
    for everything made that list long, and a call spent up to 70 microseconds in it.
    """
    first, *others = libraries
    inner = [*others, "local function body()", body, "end", "return body()"]
    text = "\n".join([first, "local function run()", *inner, "end", "return run()"])
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _load_scripts() -> dict[str, Script]:
    """Return the scripts: the files of `lua/lib` in front of one file per verb."""
    home = Path(__file__).with_name("lua")
    libraries = [file.read_text() for file in sorted((home / "lib").glob("*.lua"))]
    verbs = sorted(home.glob("*.lua"))
    return {file.stem: make_script(file.stem, libraries, file.read_text()) for file in verbs}


SCRIPTS = _load_scripts()


class _FixedSlotCluster(RedisCluster):
    """A cluster whose slots must not move while Shoal uses it."""

    def get_node(self, *_: Any, **named: Any) -> Any:
        """Refuse to follow ASK, the only purpose for which the driver calls this.

        A slot that is being moved has its keys on two nodes, and a script sees those of one: it would treat
        keys that it does not find there as new.
        """
        raise SlotMoving(str(named.get("node_name", "another node")))


class RedisServer:
    """A few connections that are opened when needed; a call whose connection is lost is repeated."""

    def __init__(self, url: str, *, patience: timedelta, skew: Callable[[], timedelta]) -> None:
        self._address = read(url)
        check_files(self._address.url, FILE_OPTIONS)
        self.address = self._address.shown
        self.is_cluster = self._address.cluster
        self._prefix = f"shoal.{self._address.namespace}" if self._address.namespace else "shoal"
        self._patience, self._outage = patience, Outage(self.address)
        self._skew = skew
        self._client: Any = None
        self._has_succeeded = False
        self._acknowledged: dict[int, deque[str]] = {}

    def tag(self, shard: int) -> str:
        """Return the hash tag that every key of a shard starts with."""
        return f"{{{self._prefix}:{shard}}}"

    def key(self, shard: int, name: str) -> str:
        """Return the full name of a key of a shard."""
        return f"{self.tag(shard)}:{name}"

    async def open(self) -> None:
        """Connect to the server; raises QueueUnavailable or QueueRefused."""
        await self._retry(self._open)

    async def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def call(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that is safe to repeat."""
        return await self._retry(lambda: self._run(SCRIPTS[script], shard, "", "", args))

    async def once(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that must take effect once: it gets the id of its call."""
        call = token_hex(12)
        received = self._acknowledged.setdefault(shard, deque(maxlen=64))
        tries = 0

        async def attempt() -> Any:
            nonlocal tries
            tries += 1
            name = call if tries == 1 else f"{call}+{tries}"
            return await self._run(SCRIPTS[script], shard, name, acked, args)

        acked = received.popleft() if received else ""
        result = await self._retry(attempt)
        # A first attempt that its repetition has overtaken may still arrive, and must find the receipt.
        if tries == 1:
            received.append(call)
        return result

    async def command(self, *words: Argument) -> Any:
        """Run a command that is safe to repeat; its first key selects the node."""
        return await self._retry(lambda: self._clients().execute_command(*words))

    async def info(self, shard: int, section: str) -> dict[str, Any]:
        """Return a section of INFO from the node of a shard."""
        return await self._retry(lambda: self._info(shard, section))

    async def setting(self, shard: int, name: str) -> str | None:
        """Return a setting of the server, None where CONFIG is not allowed."""
        try:
            found = await self._retry(lambda: self._on_node(shard, "CONFIG GET", name))
        except QueueError:
            return None
        return str(found[name]) if name in found else None

    def one_shard_per_node(self, shards: int) -> list[int]:
        """Return one shard of each node that has any."""
        if not self.is_cluster:
            return [0]
        nodes = {self._node(shard).name: shard for shard in reversed(range(shards))}
        return sorted(nodes.values())

    def _clients(self) -> Any:
        if self._client is None:
            raise QueueError("This queue is closed. Open it again with: open_queue(url)")
        return self._client

    async def _open(self) -> None:
        client = self._connect()
        try:
            await client.ping()
        except BaseException as error:
            await client.aclose()
            if problem := handshake_problem(error):
                raise HandshakeFailed(self.address, problem) from error
            raise
        self._client = client

    def _connect(self) -> Any:
        limit = min(CALL_TIMEOUT, max(self._patience, MIN_CALL_TIMEOUT)).total_seconds()
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": limit,
            "socket_connect_timeout": limit,
            "protocol": 2,
        }
        try:
            if self.is_cluster:
                return _FixedSlotCluster.from_url(self._address.url, **options)
            pool = BlockingConnectionPool.from_url(
                self._address.url, max_connections=MAX_CONNECTIONS, timeout=None, **options
            )
        except (ValueError, TypeError) as error:
            raise InvalidSetting("queue", f"cannot be read: {self.address!r}: {error}") from error
        return Redis.from_pool(pool)

    async def _run(
        self, script: Script, shard: int, call: str, acked: str, args: tuple[Argument, ...]
    ) -> Any:
        client = self._clients()
        skew = self._skew() // MICROSECOND
        rest = (1, self.tag(shard), call, acked, skew, *args)
        try:
            result = await client.execute_command("EVALSHA", script.sha, *rest)
        except exceptions.NoScriptError:
            result = await client.execute_command("EVAL", script.text, *rest)
        self._has_succeeded = True
        return result

    async def _info(self, shard: int, section: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._on_node(shard, "INFO", section)
        return found

    async def _on_node(self, shard: int, *words: str) -> Any:
        client = self._clients()
        if not self.is_cluster:
            return await client.execute_command(*words)
        return await client.execute_command(*words, target_nodes=self._node(shard))

    def _node(self, shard: int) -> Any:
        return self._clients().get_node_from_key(self.tag(shard))

    async def _retry(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a call until it succeeds or the time for retries is over."""
        retry, cancellation = RetryUntil(self._outage, self._patience), CancellationCheck()
        while True:
            try:
                result = await _separate_reset(attempt)
                cancellation.check()
                self._outage.end()
                return result
            except (exceptions.RedisError, OSError, TimeoutError) as error:
                cancellation.check()
                if is_read_only(error) and self._has_succeeded:
                    await self._leave_replica(retry, error)
                elif is_temporary(error):
                    await retry.again(reason_of(error), error)
                else:
                    raise self._translate(error) from error

    async def _leave_replica(self, retry: RetryUntil, error: BaseException) -> None:
        """Reconnect after a reply of a replica: the address may point to the new primary by now."""
        if not self.is_cluster:
            # Only idle ones: redis-py breaks where a connection is closed while it connects.
            await self._clients().connection_pool.disconnect(inuse_connections=False)
        try:
            await retry.again(reason_of(error), error)
        except QueueUnavailable:
            raise self._translate(error) from error

    def _translate(self, error: BaseException) -> QueueError:
        text = str(error)
        if text.startswith("UNKNOWNRUN "):
            return UnknownRun(text.removeprefix("UNKNOWNRUN "))
        if text.startswith("LOSTSHARD "):
            return lost_shard(self.address, text.removeprefix("LOSTSHARD "))
        return translate_error(self.address, error)


async def _separate_reset(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Raise ConnectionResetError where the driver wrote to a connection that was closed already."""
    try:
        return await attempt()
    except (RuntimeError, AttributeError) as error:
        if not is_closed(error):
            raise
        raise ConnectionResetError("the connection was reset") from error
