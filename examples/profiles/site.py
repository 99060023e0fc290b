"""An API of developers with a rate limit for each token, and their pages on another host.

By hand: python -m examples.profiles.site
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from examples.common.site import Ports, open_ports, serve
from examples.profiles.developers import PeopleSection
from shoal.demo.practice import TokenQuota

PEOPLE = 240
LIMIT, WINDOW = 15, 3.0  # requests of each token, and seconds


@asynccontextmanager
async def open_site(are_free: bool) -> AsyncIterator[tuple[Ports, Callable[[], dict[str, Any]]]]:
    quota = TokenQuota(LIMIT, WINDOW)
    section = PeopleSection(PEOPLE, quota)
    async with open_ports(are_free=are_free) as ports:
        # Never held: a request that waits would count for a later window than its client expects.
        api = await ports.serve(section, 8811, home="/people", is_gated=False)
        pages = await ports.serve(section, 8812)

        def report() -> dict[str, Any]:
            return {
                "api": api,
                "pages": pages,
                "accepted": quota.accepted,
                "refused": quota.refused.total(),
            }

        yield ports, report


if __name__ == "__main__":
    serve(open_site)
