"""The setting `files`: where downloaded files are stored."""

from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.text import shorten
from shoal.core.urls import OBJECT_SCHEMES, is_object_url

DEFAULT_FOLDER = "files"  # in the working folder of the worker


def read_files(key: str, value: Any) -> str:
    """Read a folder, or an address in object storage such as s3://bucket/images."""
    text = str(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise InvalidSetting(key, f"must be a folder or s3://BUCKET/PATH, got {shorten(repr(value))}")
    if "://" in text and not is_object_url(text):
        known = ", ".join(f"{scheme}://" for scheme in OBJECT_SCHEMES)
        raise InvalidSetting(key, f"must be a folder or an address with {known}; got {shorten(repr(text))}")
    if not is_object_url(text) and Path(text).exists() and not Path(text).is_dir():
        raise InvalidSetting(key, f"is a file, and must be a folder: {shorten(text)}. Choose another name")
    return text
