"""Parts of the demo site that behave like sites of other kinds: an API, a login, a directory, profiles."""

from collections.abc import Callable

from shoal.demo.http import ShopRequest
from shoal.demo.routes import ShopResponse

Section = Callable[[ShopRequest], ShopResponse]
