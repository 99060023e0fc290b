"""The secret that callers and listening workers share."""

import os

from shoal.core.errors import InvalidSetting
from shoal.fetch.notes import secret_of
from shoal.queue.contract import Queue

VARIABLE = "SHOAL_SECRET"
SHORTEST = 16  # characters
KEY = "calls"


async def shared_secret(queue: Queue) -> bytes:
    """Return the secret that was set, or the one of the queue, which is made at the first call."""
    given = os.environ.get(VARIABLE, "")
    if given and len(given) < SHORTEST:
        raise InvalidSetting(
            VARIABLE, f"must have at least {SHORTEST} characters. Make one: openssl rand -hex 32"
        )
    if given:
        return given.encode()
    return await secret_of(queue, KEY)
