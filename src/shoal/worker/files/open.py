"""Opens the place where downloaded files are stored."""

from pathlib import Path

from shoal.core.urls import is_object_url
from shoal.scrape.settings.storage import DEFAULT_FOLDER
from shoal.worker.files.local import LocalFiles
from shoal.worker.files.objects import ObjectFiles
from shoal.worker.files.store import FileStore


def open_files(place: str | None) -> FileStore:
    """Return the store of a folder, or of an address in object storage; raises InvalidSetting."""
    place = place or DEFAULT_FOLDER
    if not is_object_url(place):
        return LocalFiles(Path(place).absolute())

    return ObjectFiles(place)
