"""The rate limit of an API: each token has a number of requests in a window of time."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field

from shoal.demo.http import ShopRequest
from shoal.demo.routes import ShopResponse
from shoal.demo.sections.responses import HeaderPairs, json_response

PREFIX = "practice-"  # of every token that is accepted


@dataclass
class _Window:
    """The requests of one token in its current window."""

    ends_at: float
    used: int = 0


@dataclass
class TokenQuota:
    """Admits requests by their token; a token has its own window, which begins with its first request."""

    limit: int
    seconds: float
    accepted: Counter[str] = field(default_factory=Counter)  # by token
    refused: Counter[str] = field(default_factory=Counter)  # 429, by token
    _windows: dict[str, _Window] = field(default_factory=dict)

    def refuse(self, request: ShopRequest) -> ShopResponse | None:
        """Return the response to a request without a valid token or without quota, None for any other."""
        token = request.header("Authorization").removeprefix("Bearer ")
        if not token.startswith(PREFIX):
            return json_response({"message": "Bad credentials"}, 401)
        window = self._window(token)
        if window.used >= self.limit:
            self.refused[token] += 1
            wait = str(max(1, math.ceil(window.ends_at - time.time())))
            return json_response(
                {"message": "API rate limit exceeded"}, 429, (*self.headers(request), ("Retry-After", wait))
            )
        window.used += 1
        self.accepted[token] += 1
        return None

    def headers(self, request: ShopRequest) -> HeaderPairs:
        """Return what a response says about the quota of its token."""
        window = self._window(request.header("Authorization").removeprefix("Bearer "))
        return (
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(max(0, self.limit - window.used))),
            ("X-RateLimit-Reset", str(math.ceil(window.ends_at))),
        )

    def _window(self, token: str) -> _Window:
        window = self._windows.get(token)
        if window is None or time.time() >= window.ends_at:
            window = self._windows[token] = _Window(time.time() + self.seconds)
        return window
