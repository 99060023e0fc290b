"""How a call of a verb is told on the wire of each server."""

from shoal.queue.rabbitmq.state import SCRIPTS as RABBITMQ_SCRIPTS
from shoal.queue.redis.server import SCRIPTS, Script

STATEMENTS = {
    "start_run": "INSERT INTO shoal.run",
    "steer": "UPDATE shoal.run",
    "beat": "INSERT INTO shoal.worker",
    "abandon": "shoal.abandon(",
    "drop": "shoal.drop_dead(",
    "replay": "shoal.replay(",
    "edit": "shoal.edit_dead(",
    "stats": "shoal.step_group_counters",
    "items": "shoal.item",
    "dead": "FROM shoal.dead",
    "hosts": "shoal.fold_some(",
    "notes": "FROM shoal.note",
}
COMMANDS = {"items": "XRANGE", "dead": "ZRANGEBYSCORE"}
SCRIPT_OF = {"replay": "dead", "drop": "dead", "pause_host": "host", "slow_host": "host", "take_turn": "host"}
SCRIPT_OF |= {"trim_notes": "drop_notes"}


def postgres_mark(name: str) -> str:
    """Return what stands in the statement of a verb."""
    return STATEMENTS.get(name, f"shoal.{name}(")


def redis_mark(name: str) -> str:
    """Return the command or the script's digest that a verb is called by."""
    return _mark(name, SCRIPTS)


def rabbitmq_mark(name: str) -> str:
    """Return the same for the Redis beside RabbitMQ."""
    return _mark(name, RABBITMQ_SCRIPTS)


def _mark(name: str, scripts: dict[str, Script]) -> str:
    if name in COMMANDS:
        return COMMANDS[name]
    script = SCRIPT_OF.get(name, name)
    return scripts[script].sha if script in scripts else name
