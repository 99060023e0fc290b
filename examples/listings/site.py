"""A directory of businesses, and 50 proxies to reach it by, six of which do not work.

By hand: python -m examples.listings.site
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

from examples.common.site import Ports, open_ports, serve
from examples.listings.directory import ROOT, DirectorySection
from examples.listings.places import CATEGORIES, as_csv, places
from shoal.demo.http import ShopRequest
from shoal.demo.responses import ShopResponse, page_response
from tests.servers.proxies import MicroSocks, Proxy, TinyProxy

SITE = 8841
HTTP, SOCKS = range(8901, 8937), range(8937, 8945)
DEAD, REFUSING = range(8945, 8949), range(8949, 8951)  # nobody listens; the proxy says no
SCRIPTED = "HI"  # the pages of this state are empty until their script has run

_FRAME = """<main id="app"></main>
<noscript>This page needs JavaScript.</noscript>
<script>
fetch(location.pathname + "?rows").then(response => response.text()).then(text => {
  const rows = new DOMParser().parseFromString(text, "text/html").body;
  document.querySelector("#app").append(...rows.children);
});
</script>"""


def respond(request: ShopRequest, section: DirectorySection) -> ShopResponse:
    path, _, query = request.path.partition("?")
    if path == "/cities.csv":
        return ShopResponse(body=as_csv().encode(), content_type="text/csv; charset=utf-8")
    depth = len([part for part in path.removeprefix(ROOT).split("/") if part])
    if path.startswith(f"{ROOT}{SCRIPTED}/") and depth == 3 and query != "rows":
        return page_response(SCRIPTED, _FRAME)
    return section(request)


@asynccontextmanager
async def open_site(are_free: bool) -> AsyncIterator[tuple[Ports, Callable[[], dict[str, Any]]]]:
    section = DirectorySection(places(), CATEGORIES)
    async with open_ports(are_free=are_free) as ports, AsyncExitStack() as stack:
        statuses = await ports.serve(lambda request: respond(request, section), SITE, home=ROOT)
        proxies = stack.enter_context(ExitStack())
        for port in DEAD:
            ports.refuse(port)
        started = [_start(port, are_free) for port in (*HTTP, *SOCKS, *REFUSING)]
        for proxy in started:
            proxies.callback(proxy.close)
        for port, proxy in zip((*HTTP, *SOCKS, *REFUSING), started, strict=True):
            ports.names[f"127.0.0.1:{port}"] = f"127.0.0.1:{proxy.wait().port}"
        yield ports, lambda: {"pages": statuses}


def _start(port: int, is_free: bool) -> Proxy:
    at = None if is_free else port
    if port in SOCKS:
        return MicroSocks(port=at).begin()
    return TinyProxy(port=at, refuses=port in REFUSING).begin()


if __name__ == "__main__":
    serve(open_site)
