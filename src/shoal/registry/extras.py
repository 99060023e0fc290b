"""The command that installs an extra of Shoal, which depends on how Shoal itself was installed."""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

PACKAGE = "shoal"
_CHECKOUT = Path(__file__).parents[3]


def install_command(extra: str) -> str:
    """Return what to type to add an extra: from the checkout, archive or index that Shoal came from."""
    return command_for(extra, _read_origin())


def command_for(extra: str, origin: dict[str, Any] | None) -> str:
    """Return the command for an origin as in `direct_url.json` (PEP 610); None is a package index."""
    name = f"{PACKAGE}[{extra}]"
    match origin:
        case {"url": str(url), "dir_info": dict(how)}:
            folder = Path(unquote(urlsplit(url).path))
            if folder.is_dir():
                words = ["pip", "install", *(["-e"] if how.get("editable") else []), f"{folder}[{extra}]"]
                return shlex.join(words)
        case {"url": str(url), "vcs_info": {"vcs": str(vcs), "commit_id": str(commit)}}:
            return shlex.join(["pip", "install", f"{name} @ {vcs}+{url}@{commit}"])
        case {"url": str(url), "archive_info": _}:
            return shlex.join(["pip", "install", f"{name} @ {url}"])
        case _:
            pass
    return f"pip install '{name}'"


def _read_origin() -> dict[str, Any] | None:
    # Imported here: it is slow to import, and only a message needs it.
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(OSError, msgspec.MsgspecError):
        try:
            text = distribution(PACKAGE).read_text("direct_url.json")
        except PackageNotFoundError:  # started from a checkout with PYTHONPATH
            if not (_CHECKOUT / "pyproject.toml").is_file():
                return None
            return {"url": _CHECKOUT.as_uri(), "dir_info": {"editable": True}}
        return msgspec.json.decode(text, type=dict[str, Any]) if text else None
    return None
