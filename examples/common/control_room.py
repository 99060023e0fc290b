"""`shoal serve` as its users see it: the JSON API by a token, and the pages by their forms."""

import json
import re
import time
from collections.abc import Mapping
from html import unescape
from http.cookiejar import CookieJar
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

from examples.common.patience import PATIENCE, POLL, Failure
from examples.common.workspace import Workspace, kill
from tests.servers.process import free_port

UNAVAILABLE = 503
TOKEN = "a-token-for-practice-only"
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


class ControlRoom:
    """Serves the queue of a workspace while the context is open."""

    def __init__(self, work: Workspace, machine: str = "") -> None:
        self._work, port = work, free_port()
        self.address = f"http://127.0.0.1:{port}"
        work.environment["SHOAL_WEB_TOKEN"] = TOKEN
        self._process = work.start("serve", "serve", "--port", str(port), machine=machine)
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def __enter__(self) -> Self:
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            try:
                self._browser.open(f"{self.address}/healthz").close()
            except URLError:
                time.sleep(0.1)
            else:
                return self
        raise Failure(f"Nobody serves {self.address}")

    def __exit__(self, *_: object) -> None:
        kill(self._process)

    def call(self, path: str, data: Mapping[str, Any] | None = None) -> Any:
        """Send a request to the API: a POST, if there is data."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = None if data is None else json.dumps(data).encode()
        with self._open(Request(f"{self.address}/api/{path}", body, headers)) as response:
            return json.load(response)

    def read(self, path: str) -> str:
        """Return a text, such as an export or the metrics."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with self._open(Request(f"{self.address}/{path}", headers=headers)) as response:
            text: str = response.read().decode()
            return text

    def submit(self, path: str, **fields: str) -> tuple[str, dict[str, str]]:
        """Submit a form as a browser does; return where it leads, and the hidden fields of that page."""
        body = urlencode(fields).encode()
        with self._open(Request(f"{self.address}{path}", body, {"Origin": self.address})) as response:
            page = response.read().decode()
            return response.url, {name: unescape(value) for name, value in HIDDEN.findall(page)}

    def _open(self, request: Request) -> Any:
        """Send a request; if a page is not available, look again, but submit nothing twice."""
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                return self._browser.open(request)
            except HTTPError as error:
                is_form = request.data is not None and error.url == request.full_url
                if error.code != UNAVAILABLE or is_form or time.monotonic() > give_up:
                    raise Failure(f"{error.url} returns {error.code}: {error.read()[:500]!r}") from error
                request = Request(error.url, headers=dict(request.header_items()))
                time.sleep(0.5)

    def wait_for_end(self, run_id: str) -> None:
        """Wait until a run has finished."""
        give_up = time.monotonic() + PATIENCE
        while self.call(f"runs/{run_id}")["state"] != "finished":
            if time.monotonic() > give_up:
                raise Failure(f"Run {run_id} does not end")
            time.sleep(POLL)
