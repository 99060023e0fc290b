"""The drug registries of six countries, each on a port of its own and each built in its own way.

By hand: python -m examples.registries.site
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from examples.common.site import Ports, open_ports, serve
from examples.registries.medicines import SUBSTANCES, fails_at_first, is_gone, medicine
from shoal.demo.http import ShopRequest
from shoal.demo.responses import SCRIPT, ShopResponse, error_page, json_response, link_list, page_response

INDEX = 8820
PORTS = {"AR": 8821, "CA": 8822, "NL": 8823, "RU": 8824, "IN": 8825, "MY": 8826}
NAMES = {
    "AR": "Argentina",
    "CA": "Canada",
    "NL": "Netherlands",
    "RU": "Russia",
    "IN": "India",
    "MY": "Malaysia",
}
ARGENTINA, CANADA, NETHERLANDS, RUSSIA, MALAYSIA = 240, 120, 84, 36, 20  # medicines
INDIA = 1_000_000
PER_PAGE, PER_CLICK = 20, 12
NO_ROWS = "<table></table>"

# What a page shows once its script has run: the medicine of a pack, or rows that a button adds to.
RENDER_PACK = """
fetch("/data" + location.pathname).then((response) => response.json()).then((found) => {
  document.querySelector("main").innerHTML =
    Object.entries(found).map(([name, value]) => `<p>${name}: <b class="${name}">${value}</b></p>`).join("");
});
"""
RENDER_ROWS = """
const table = document.querySelector("table"), more = document.querySelector("button");
async function load() {
  const found = await (await fetch("/data/rows?from=" + table.rows.length)).json();
  for (const one of found.rows) {
    const row = table.insertRow();
    for (const value of Object.values(one)) row.insertCell().textContent = value;
  }
  table.dataset.rows = table.rows.length;
  if (!found.more) more.remove();
}
more.addEventListener("click", load);
load();
"""


class RegistrySite:
    """Responds as the registry of one country; `asked` are the requests for each page of a medicine."""

    def __init__(self, country: str) -> None:
        self._respond: Callable[[str, Mapping[str, str]], ShopResponse | None] = {
            "AR": self._argentina,
            "CA": self._canada,
            "NL": self._netherlands,
            "RU": self._russia,
            "IN": self._india,
            "MY": self._malaysia,
        }[country]
        self._country = country
        self.asked: dict[str, int] = {}

    def __call__(self, request: ShopRequest) -> ShopResponse:
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return self._respond(parts.path, query) or error_page(404)

    def _argentina(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with lists of links that lead on to each other, and a page for each medicine."""
        if path == "/":
            first = int(query.get("from", "1"))
            last = min(first + PER_PAGE, ARGENTINA + 1)
            links = {f"/ficha/{number}": f"Ficha {number}" for number in range(first, last)}
            more = f'<a class="next" href="/?from={last}">Siguiente</a>' if last <= ARGENTINA else ""
            return page_response("Vademécum", link_list(links) + more)
        number = _number(path, "/ficha/", ARGENTINA)
        return self._facts(number) if number else None

    def _canada(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with an API in pages."""
        if path == "/":
            return page_response("Registre", link_list({"/api/products": "API"}))
        if path != "/api/products":
            return None
        first = int(query.get("offset", "0"))
        last = min(first + PER_PAGE, CANADA)
        after = f"/api/products?offset={last}" if last < CANADA else None
        return json_response(
            {"products": [medicine("CA", number) for number in range(first + 1, last + 1)], "next": after}
        )

    def _netherlands(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with a table for each substance."""
        if path == "/":
            return page_response(
                "Geneesmiddelen", link_list({f"/stof?naam={one}": one for one in SUBSTANCES})
            )
        wanted = query.get("naam") if path == "/stof" else None
        found = [medicine("NL", number) for number in range(1, NETHERLANDS + 1)]
        rows = [one for one in found if one["substance"] == wanted]
        return page_response(wanted or "", _table(rows)) if rows else None

    def _russia(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with an empty table that a script fills, with more rows for every click."""
        if path == "/":
            return page_response("Реестр", f"{NO_ROWS}<button>Ещё</button><script src='/rows.js'></script>")
        if path == "/rows.js":
            return ShopResponse(body=RENDER_ROWS.encode(), content_type=SCRIPT)
        if path != "/data/rows":
            return None
        first = int(query.get("from", "0"))
        last = min(first + PER_CLICK, RUSSIA)
        rows = [medicine("RU", number) for number in range(first + 1, last + 1)]
        return json_response({"rows": rows, "more": last < RUSSIA})

    def _india(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with a page for each of a million medicines. Some are missing, some fail at first."""
        if path == "/":
            return page_response("Drugs", link_list({f"/drug/{n}": f"Drug {n}" for n in range(1, 21)}))
        number = _number(path, "/drug/", INDIA)
        if not number or is_gone(number):
            return None
        if fails_at_first(number) and path not in self.asked:
            self.asked[path] = 1
            return page_response("Error", "<p>Try again.</p>", 500)
        return self._facts(number)

    def _malaysia(self, path: str, query: Mapping[str, str]) -> ShopResponse | None:
        """Respond with pages that are empty until their script has run."""
        if path == "/":
            return page_response("Packs", link_list({f"/pack/{n}": f"Pack {n}" for n in range(1, 21)}))
        if path == "/pack.js":
            return ShopResponse(body=RENDER_PACK.encode(), content_type=SCRIPT)
        if number := _number(path, "/data/pack/", MALAYSIA):
            return json_response(medicine("MY", number))
        number = _number(path, "/pack/", MALAYSIA)
        return page_response("Pack", "<main></main><script src='/pack.js'></script>") if number else None

    def _facts(self, number: int) -> ShopResponse:
        found = medicine(self._country, number)
        path = found["code"]
        self.asked[path] = self.asked.get(path, 0) + 1
        rows = "".join(
            f'<tr><th>{name}</th><td class="{name}">{escape(value)}</td></tr>'
            for name, value in found.items()
        )
        return page_response(found["name"], f'<table class="facts">{rows}</table>')


def _index() -> ShopResponse:
    return page_response(
        "Six registries", link_list({f"http://127.0.0.1:{port}/": NAMES[one] for one, port in PORTS.items()})
    )


def _number(path: str, folder: str, last: int) -> int:
    text = path.removeprefix(folder)
    is_number = path.startswith(folder) and text.isdecimal() and len(text) < 8
    return int(text) if is_number and 0 < int(text) <= last else 0


def _table(rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in rows[0])
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row.values())}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead>{lines}</table>"


@asynccontextmanager
async def open_site(are_free: bool) -> AsyncIterator[tuple[Ports, Callable[[], dict[str, Any]]]]:
    sites = {country: RegistrySite(country) for country in PORTS}
    async with open_ports(are_free=are_free) as ports:
        await ports.serve(lambda _: _index(), INDEX)
        statuses = {country: await ports.serve(site, PORTS[country]) for country, site in sites.items()}

        def report() -> dict[str, Any]:
            return {
                "statuses": statuses,
                "twice": {
                    country: sum(count > 1 for count in site.asked.values())
                    for country, site in sites.items()
                },
            }

        yield ports, report


if __name__ == "__main__":
    serve(open_site)
