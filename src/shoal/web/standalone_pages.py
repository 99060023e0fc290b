"""The two pages that need no login: the login form and the error page."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from shoal.core.version import VERSION


@cache
def _environment() -> Environment:
    # Every value is escaped, whatever the template's file name.
    return Environment(
        loader=PackageLoader("shoal.web", "templates"), autoescape=True, undefined=StrictUndefined
    )


def render_standalone(template: str, **values: object) -> str:
    """Render a page."""
    return _environment().get_template(template).render(version=VERSION, **values)
