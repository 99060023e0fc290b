"""Files in object storage. A download is a file without a name on this machine, until it is uploaded."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from tempfile import TemporaryFile
from typing import Any, cast

from shoal.core.commands import run_command
from shoal.core.errors import StorageFailed
from shoal.export.objects import ObjectAddress, attributes_of_object, create_object, size_of_object
from shoal.scrape.files import with_suffix
from shoal.worker.files.local import SUFFIX_LENGTH, storage_error
from shoal.worker.files.store import FileStore, Spool

PROBE = ".shoal"  # an empty object that shows that files can be stored
log = logging.getLogger(__name__)


class ObjectFiles(FileStore):
    """Files whose names begin with the path of an address such as s3://bucket/images."""

    def __init__(self, location: str) -> None:
        self._address = ObjectAddress.read(location)
        self._store = self._address.open()
        self.place = self._address.location

    def open_spool(self) -> Spool:
        try:
            return Spool(cast(Any, TemporaryFile(buffering=0)))
        except OSError as error:
            raise storage_error("A temporary file", error) from error

    def keep(self, spool: Spool, path: str, kind: str) -> tuple[str, bool]:
        checksum = spool.sha256
        # The name, and those to take if it belongs to another file.
        names = path, with_suffix(path, checksum[:SUFFIX_LENGTH]), checksum
        attributes = {"sha256": checksum} | ({"Content-Type": kind} if kind else {})
        with self._translate_errors():
            for name in names:
                if self._is_free(name) and create_object(
                    self._store, self._key(name), spool.file, attributes
                ):
                    return name, True
                if self._is_same(name, spool.size, checksum):
                    return name, False
        raise StorageFailed(self.place, f"{path!r} is the name of another file", "Choose another path=")

    def discard(self, spool: Spool) -> None:
        with suppress(OSError):
            spool.file.close()

    def has(self, path: str, size: int) -> bool:
        with self._translate_errors():
            return size_of_object(self._store, self._key(path)) == size

    def check(self) -> None:
        """Raise StorageFailed if the bucket is missing or access to it is denied.

        It writes an empty object, because reading does not tell whether writing is allowed.
        """
        key = self._key(PROBE)
        try:
            attributes_of_object(self._store, key)
            create_object(self._store, key, BytesIO(), {})
        except Exception as error:
            problem = self._address.explain(error)
            if problem.is_unreachable:
                log.warning("%s: %s. Downloads are retried. %s", self.place, problem.reason, problem.advice)
                return
            raise StorageFailed(self.place, problem.reason, problem.advice) from error

    def _is_free(self, name: str) -> bool:
        return size_of_object(self._store, self._key(name)) is None

    def _is_same(self, name: str, size: int, checksum: str) -> bool:
        if checksum in name:
            return True
        if size_of_object(self._store, self._key(name)) != size:
            return False
        attributes = attributes_of_object(self._store, self._key(name)) or {}
        return attributes.get("sha256") == checksum

    def _key(self, path: str) -> str:
        return f"{self._address.key}/{path}" if self._address.key else path

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            problem = self._address.explain(error)
            advice = f"{problem.advice}, then: {run_command('dead replay')}"
            raise StorageFailed(self.place, problem.reason, advice) from error
