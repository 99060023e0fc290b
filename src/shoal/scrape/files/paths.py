"""The names of downloaded files: from a template, always inside the folder of the files."""

import mimetypes
import re
from collections.abc import Mapping
from functools import cache
from urllib.parse import unquote, urlsplit

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten

DEFAULT_PATH = "{sha256}{ext}"
FIELDS = ("sha256", "ext", "name", "host", "run")
MAX_TEMPLATE = 1_000  # characters
MAX_SEGMENT, MAX_PATH, MAX_FOLDERS = 120, 400, 8  # bytes of UTF-8, and folders

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::\.([0-9]{1,2}))?\}")
_UNSAFE = re.compile(r'[\\:*?"<>|]')
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # on Windows
_MORE = {"image/jpeg": ".jpg", "image/webp": ".webp", "image/avif": ".avif", "font/woff2": ".woff2"}
_SAYS_NOTHING = ("", "application/octet-stream", "binary/octet-stream")


def check_template(template: object) -> str:
    """Return a template for the path of a file; raises InvalidInput."""
    if not isinstance(template, str) or not template.strip() or len(template) > MAX_TEMPLATE:
        raise InvalidInput(f"path must be text such as {DEFAULT_PATH!r}, got {shorten(repr(template))}")
    for field in _FIELD.finditer(template):
        if field[1] not in FIELDS:
            known = ", ".join(f"{{{name}}}" for name in FIELDS)
            raise InvalidInput(f"path has no field {{{shorten(field[1], 40)}}}. Known are {known}")
    return template


@cache
def _types() -> mimetypes.MimeTypes:
    # Not those of the machine, which differ: the same file must have the same name on every worker.
    return mimetypes.MimeTypes(filenames=())


def extension_of(url: str, kind: str) -> str:
    """Return the extension of a file by its type, else by its URL; empty if neither tells."""
    _, dot, end = urlsplit(url).path.rpartition("/")[2].rpartition(".")
    by_url = f"{dot}{end}".lower() if dot and _EXTENSION.fullmatch(f".{end}") else ""
    if kind in _SAYS_NOTHING:
        return by_url
    if _types().guess_type(f"file{by_url}")[0] == kind:
        return by_url  # of several that a type has
    return _MORE.get(kind) or _types().guess_extension(kind, strict=False) or by_url


def name_of(url: str) -> str:
    """Return the last part of a URL's path, without its extension."""
    last = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    stem, dot, end = last.rpartition(".")
    return stem if dot and stem and _EXTENSION.fullmatch(f".{end}") else last


def render_path(template: str, fields: Mapping[str, str]) -> str:
    """Return the relative path of a file; whatever the fields hold, it stays inside the folder."""

    def fill(field: re.Match[str]) -> str:
        # A slash of a field is no folder: only those of the template are.
        value = fields.get(field[1], "").replace("/", "_")
        return value[: int(field[2])] if field[2] else value

    parts = [_make_safe(part) for part in _FIELD.sub(fill, template).split("/")]
    kept = [part for part in parts if part] or ["file"]
    kept = [*kept[:-1][:MAX_FOLDERS], kept[-1]]
    while len("/".join(kept).encode()) > MAX_PATH:
        kept.pop(0)
    return "/".join(kept)


def with_suffix(path: str, suffix: str) -> str:
    """Return a path with a suffix before its extension."""
    folder, slash, name = path.rpartition("/")
    stem, dot, end = name.rpartition(".")
    new = f"{stem}-{suffix}{dot}{end}" if dot and stem else f"{name}-{suffix}"
    return f"{folder}{slash}{new}"


def _make_safe(part: str) -> str:
    """Return a part of a path as a name that every file system can hold; empty if nothing is left."""
    text = "".join(char if char.isprintable() else "_" for char in part)
    text = _UNSAFE.sub("_", text).lstrip(". ").rstrip(". ")
    if _RESERVED.fullmatch(text):
        text = f"_{text}"
    if len(text.encode()) <= MAX_SEGMENT:
        return text
    found = _EXTENSION.search(text, len(text) - 11)
    end = found[0] if found and text.endswith(found[0]) else ""
    return text.encode()[: MAX_SEGMENT - len(end)].decode(errors="ignore").rstrip(". ") + end
