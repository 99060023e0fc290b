"""Browser profiles that wreq can emulate (TLS, HTTP/2, headers): "chrome" is the newest known version."""

import re
from functools import cache

import wreq

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint

_MEMBER = re.compile(r"(Chrome|Edge|Firefox|Opera|Safari)(\d+(?:_\d+)*)")


@cache
def known_profiles() -> dict[str, wreq.Profile]:
    """Return every desktop browser by name and version, such as "chrome154" or "safari26.4"."""
    found = {}
    for name, profile in vars(wreq.Profile).items():
        if member := _MEMBER.fullmatch(name):
            found[member[1].lower() + member[2].replace("_", ".")] = profile
    return found


@cache
def profile_of(name: str) -> wreq.Profile:
    """Return a profile by name, the newest if the name has no version; raises InvalidSetting."""
    known = known_profiles()
    if name in known:
        return known[name]
    versions = sorted(
        (_version(full), full) for full in known if full.startswith(name) and _family(full) == name
    )
    if not versions:
        raise InvalidSetting("sessions.profile", f"is not a known browser: {name!r}. {hint(name, known)}")
    return known[versions[-1][1]]


def _family(full: str) -> str:
    return full.rstrip("0123456789.")


def _version(full: str) -> tuple[int, ...]:
    return tuple(int(part) for part in full[len(_family(full)) :].split("."))
