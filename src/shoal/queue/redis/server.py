"""The connections to one Redis, plain or a cluster, and what to do when one is lost."""

from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from secrets import token_hex
from typing import Any, TypeVar

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from shoal.core.errors import InvalidSetting, QueueError, QueueUnavailable, UnknownRun
from shoal.queue.patience import Obedience, Outage, Patience
from shoal.queue.redis.address import read
from shoal.queue.redis.foreign import foreign_key
from shoal.queue.redis.scripts import SCRIPTS, Script
from shoal.queue.redis.translate import (
    SlotMoving,
    WrongType,
    is_passing,
    is_read_only,
    lost_shard,
    reason_of,
    translated,
)

Answer = TypeVar("Answer")
Argument = bytes | str | int

MOST_CONNECTIONS = 8
LONGEST_CALL = 10.0  # seconds; a server that says nothing for so long is given up, and the call repeated
MICROSECOND = timedelta(microseconds=1)


class _Cluster(RedisCluster):
    """A cluster whose slots must stay where they are while Shoal works."""

    def get_node(self, *_: Any, **named: Any) -> Any:
        """Refuse to follow ASK, which is the one thing that the driver looks a node up for.

        A slot that is being moved has its keys on two nodes, and a script sees those of one: what it does not
        find there it would take for new.
        """
        raise SlotMoving(str(named.get("node_name", "another node")))


class Server:
    """A few connections that are opened when needed; a call whose connection is lost is repeated."""

    def __init__(self, url: str, *, patience: timedelta, skew: Callable[[], timedelta]) -> None:
        self._address = read(url)
        self.address = self._address.shown
        self.is_cluster = self._address.cluster
        self._prefix = f"shoal.{self._address.namespace}" if self._address.namespace else "shoal"
        self._patience, self._outage = patience, Outage(self.address)
        self._skew = skew
        self._client: Any = None
        self._has_run = False
        self._answered: dict[int, deque[str]] = {}

    def tag(self, shard: int) -> str:
        """Return the hash tag with which every key of a shard begins."""
        return f"{{{self._prefix}:{shard}}}"

    def key(self, shard: int, name: str) -> str:
        """Return the full name of a key of a shard."""
        return f"{self.tag(shard)}:{name}"

    async def open(self) -> None:
        """Make sure that the server answers; raises QueueUnavailable or QueueRefused."""
        await self._persist(self._open)

    async def close(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def call(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that is safe to repeat."""
        return await self._scripted(shard, lambda: self._run(SCRIPTS[script], shard, "", "", args))

    async def once(self, script: str, shard: int, *args: Argument) -> Any:
        """Run a script that must take effect once: it is handed the id of its call."""
        call = token_hex(12)
        known = self._answered.setdefault(shard, deque(maxlen=64))
        tries = 0

        async def attempt() -> Any:
            nonlocal tries
            tries += 1
            name = call if tries == 1 else f"{call}+{tries}"
            return await self._run(SCRIPTS[script], shard, name, acked, args)

        acked = known.popleft() if known else ""
        answer = await self._scripted(shard, attempt)
        # A first try that was overtaken by its repetition may still arrive, and must find the receipt.
        if tries == 1:
            known.append(call)
        return answer

    async def command(self, *words: Argument) -> Any:
        """Run a command that is safe to repeat; its first key says where."""
        return await self._persist(lambda: self._clients().execute_command(*words))

    async def info(self, shard: int, section: str) -> dict[str, Any]:
        """Return a section of INFO from the node of a shard."""
        return await self._persist(lambda: self._info(shard, section))

    async def setting(self, shard: int, name: str) -> str | None:
        """Return a setting of the server, None where it may not be asked."""
        try:
            found = await self._persist(lambda: self._on_node(shard, "CONFIG GET", name))
        except QueueError:
            return None
        return str(found[name]) if name in found else None

    def one_shard_per_node(self, shards: int) -> list[int]:
        """Return a shard of each node that has some."""
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
        except BaseException:
            await client.aclose()
            raise
        self._client = client

    def _connect(self) -> Any:
        limit = min(LONGEST_CALL, max(self._patience.total_seconds(), 0.5))
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": limit,
            "socket_connect_timeout": limit,
            "protocol": 2,
        }
        try:
            if self.is_cluster:
                return _Cluster.from_url(self._address.url, **options)
            pool = BlockingConnectionPool.from_url(
                self._address.url, max_connections=MOST_CONNECTIONS, timeout=None, **options
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
            return await client.execute_command("EVALSHA", script.sha, *rest)
        except exceptions.NoScriptError:
            return await client.execute_command("EVAL", script.text, *rest)

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

    async def _scripted(self, shard: int, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await self._persist(attempt)
            self._has_run = True
            return answer
        except WrongType as error:
            found = await foreign_key(self.command, self.key(shard, ""))
            if found is None:
                raise
            key, has, wanted = found
            raise QueueError(
                f"The queue at {self.address} keeps a {wanted} in {key!r}, "
                f"but a {has} of somebody else is there. "
                "Rename that, or give Shoal a database of its own: redis://host:6379/1"
            ) from error

    async def _persist(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Try until there is an answer or patience is over."""
        patience, obedience = Patience(self._outage, self._patience), Obedience()
        while True:
            try:
                answer = await attempt()
                obedience.check()
                self._outage.end()
                return answer
            except (exceptions.RedisError, OSError, TimeoutError) as error:
                obedience.check()
                if is_read_only(error) and self._has_run:
                    await self._leave_replica(patience, error)
                elif is_passing(error):
                    await patience.again(reason_of(error), error)
                else:
                    raise self._translate(error) from error

    async def _leave_replica(self, patience: Patience, error: BaseException) -> None:
        """Connect again where a replica answers: the address may lead to the new primary by now."""
        if not self.is_cluster:
            # Those in use are left to their users: redis-py breaks where one is cut off while it connects.
            await self._clients().connection_pool.disconnect(inuse_connections=False)
        try:
            await patience.again(reason_of(error), error)
        except QueueUnavailable:
            raise self._translate(error) from error

    def _translate(self, error: BaseException) -> QueueError:
        text = str(error)
        if text.startswith("UNKNOWNRUN "):
            return UnknownRun(text.removeprefix("UNKNOWNRUN "))
        if text.startswith("LOSTSHARD "):
            return lost_shard(self.address, text.removeprefix("LOSTSHARD "))
        return translated(self.address, error)
