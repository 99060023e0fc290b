"""What the pages of one run have in common: its tabs, its steps, and where the next page of a list is."""

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from shoal.fleet.progress import Snapshot
from shoal.web.answers import path_of
from shoal.web.frame import answering, root_of
from shoal.web.sampler import Sample
from shoal.web.site import site_of

TABS = (
    ("Run", ""),
    ("Items", "/items"),
    ("Rejects", "/rejects"),
    ("Dead letters", "/dead"),
    ("Tasks", "/tasks"),
    ("Proxies", "/proxies"),
)


def path_of_run(run_id: str) -> str:
    """Return the path of a run's page, without the root."""
    return f"/runs/{quote(run_id, safe='')}"


def typed(*words: str, **options: str) -> str:
    """Return a command as it is typed; what stands in it may come from a hostile site, and is quoted."""
    chosen = [word for name, value in options.items() if value for word in (f"--{name}", value)]
    return shlex.join([*words, *chosen])


async def seen(request: Request, run_id: str) -> tuple[Sample, Snapshot]:
    """Return a fresh sample and how the run is; raises UnknownRun, or QueueUnavailable."""
    site = site_of(request)
    async with answering(site):
        sample = await site.sampler.fresh(run_id)
        # Where the queue does not answer it is asked once more, so that the error says why.
        one = sample.snapshot(run_id) or Snapshot(
            await site.app.queue.run(run_id), await site.app.queue.stats(run_id), 0, 0.0, None
        )
    return sample, one


def frame_of(run_id: str, tab: str, one: Snapshot) -> dict[str, Any]:
    """Return what the frame of a run's page shows."""
    base = path_of_run(run_id)
    return {
        "run_id": run_id,
        "tab": tab,
        "tabs": [(name, f"{base}{path}") for name, path in TABS],
        "steps": sorted(one.stats.steps),
    }


def links(request: Request, after: str | None, given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return where the first and the next page of a list are, with the same filter."""
    here = f"{root_of(request)}{path_of(request.scope)}"
    kept = {name: value for name, value in given.items() if value}
    is_first = "after" not in request.query_params
    return {
        "first": None if is_first else f"{here}?{urlencode(kept)}",
        "next": f"{here}?{urlencode({**kept, 'after': after})}" if after else None,
        "here_path": here,
    }
