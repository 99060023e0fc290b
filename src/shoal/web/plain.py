"""The two pages that strangers see: the login, and why something was refused."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from shoal.core.version import VERSION


@cache
def _environment() -> Environment:
    # Every value is escaped, whatever the name of the template is.
    return Environment(
        loader=PackageLoader("shoal.web", "templates"), autoescape=True, undefined=StrictUndefined
    )


def rendered(template: str, **values: object) -> str:
    """Return a page."""
    return _environment().get_template(template).render(version=VERSION, **values)
