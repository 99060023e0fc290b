"""The secret that callers and listening workers share."""

import os

from shoal.core.errors import InvalidSetting
from shoal.fetch.shared_state import secret_of
from shoal.queue.contract import Queue

VARIABLE = "SHOAL_SECRET"
MIN_LENGTH = 16  # characters
KEY = "calls"


async def shared_secret(queue: Queue) -> bytes:
    """Return the secret in the environment, or the queue's own, which is created at the first call."""
    given = os.environ.get(VARIABLE, "")
    if given and len(given) < MIN_LENGTH:
        raise InvalidSetting(
            VARIABLE, f"must have at least {MIN_LENGTH} characters. Create one: openssl rand -hex 32"
        )
    if given:
        return given.encode()
    return await secret_of(queue, KEY)
