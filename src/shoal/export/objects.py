"""Object storage: s3://, gs:// and az:// addresses, through obstore."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import msgspec

from shoal.core.errors import ExportFailed, ExportUnavailable, InvalidSetting
from shoal.core.redact import redacted, shown_address
from shoal.core.text import printable, shorten
from shoal.export.target import OutputTarget, translate_os_errors
from shoal.registry.extras import install_command

MAX_KEY = 1_024  # bytes of the name of an object
MAX_PUT = 64 << 20  # bytes that are uploaded in one request
SMALL = 1 << 20  # bytes; a request with fewer gets its response as soon as one without a body
UPLOAD_TIMEOUT, REPLY_TIMEOUT = timedelta(minutes=2), timedelta(seconds=10)  # of one request, by its size
CONNECT_TIMEOUT = timedelta(seconds=10)
RETRY_TIMEOUT, MAX_RETRIES = timedelta(seconds=30), 5  # after the timeout, no further try begins
# Variables with the address of a server that is not the provider's own; obstore does not read all of them.
ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
ENDPOINT_KEYS = {"s3": "endpoint", "gs": "base_url", "az": "endpoint"}  # of obstore
KEY_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
NETWORK_VARIABLES = {
    "s3": "AWS_ENDPOINT_URL",
    "gs": "GOOGLE_BASE_URL",
    # The account is a part of the host's name.
    "az": "AZURE_STORAGE_ACCOUNT_NAME",
}
SERVICES = {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
BUCKET_WORDS = {"s3": "bucket", "gs": "bucket", "az": "container"}
# What the error of a host without credentials mentions: the service that a machine of a cloud has.
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "credential", "Account must be specified")
_LIBRARY_PREFIX = re.compile(r"^Generic \w+ error: ")
_BUSY = re.compile(r"non-2xx status code: ((?:429|5\d\d)[\w ]*)")
_UNREACHABLE = ("error sending request", "dns error", "connect", "timed out", "HTTP error")


class BucketClients(NamedTuple):
    """The clients of one bucket: the timeout of the library counts from the beginning of an upload."""

    requests: Any  # for small ones
    uploads: Any  # for files

    def of_size(self, size: int) -> Any:
        """Return the client for a request with a body of this size."""
        return self.requests if size < SMALL else self.uploads


class ObjectProblem(NamedTuple):
    """Why object storage cannot be used, and what to do."""

    reason: str
    advice: str
    is_unreachable: bool = False


class ObjectAddress(msgspec.Struct, frozen=True):
    """An object, or the beginning of the names of several, in a bucket."""

    scheme: str
    bucket: str
    key: str

    @classmethod
    def read(cls, text: str) -> "ObjectAddress":
        """Read s3://BUCKET/NAME; raises InvalidSetting."""
        scheme, _, rest = text.partition("://")
        bucket, _, key = rest.partition("/")
        scheme, key = scheme.lower(), unquote(key).strip("/")
        if not bucket or "@" in bucket or not text.isprintable() or len(key.encode()) > MAX_KEY:
            example = f"{scheme}://BUCKET/items.jsonl"
            raise InvalidSetting(f"{scheme}://…", f"is not an address in object storage. Write: {example}")
        if key and not {"", ".", ".."}.isdisjoint(key.split("/")):
            # The library refuses such names, and not all providers have them.
            raise InvalidSetting(
                f"{scheme}://{bucket}/{shorten(key)}",
                "has two slashes in a row, or a part that is . or .. in the name of the object; leave it out",
            )
        return cls(scheme, bucket, key)

    @property
    def location(self) -> str:
        """The address in messages."""
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def server(self) -> str:
        """The server of the bucket in messages: its address if that is set, else the name of the service."""
        endpoint = next(filter(None, map(os.environ.get, ENDPOINTS[self.scheme])), None)
        return shown_address(endpoint) if endpoint else SERVICES[self.scheme]

    def open(self) -> BucketClients:
        """Return the clients of the bucket; raises InvalidSetting if the library is not installed."""
        return BucketClients(self._client(REPLY_TIMEOUT), self._client(UPLOAD_TIMEOUT))

    def _client(self, timeout: timedelta) -> Any:
        stores = _library("obstore.store", self.location)
        endpoint = _read_endpoint(self.scheme)
        config = {ENDPOINT_KEYS[self.scheme]: endpoint} if endpoint else {}
        more = _profile_credentials() if self.scheme == "s3" else {}
        try:
            return stores.from_url(
                f"{self.scheme}://{self.bucket}",
                config=config or None,
                client_options={
                    "allow_http": endpoint.startswith("http://") or bool(os.environ.get("AWS_ALLOW_HTTP")),
                    # Not of the whole request: the response may be a large object.
                    "timeout": UPLOAD_TIMEOUT,
                    "read_timeout": timeout,
                    "connect_timeout": CONNECT_TIMEOUT,
                },
                retry_config={"max_retries": MAX_RETRIES, "retry_timeout": RETRY_TIMEOUT},
                **more,
            )
        except Exception as error:
            problem = self.explain(error)
            raise InvalidSetting(self.location, f"{problem.reason}. {problem.advice}") from error

    def explain(self, error: BaseException) -> ObjectProblem:
        """Return what an error of the library means."""
        text, kind, scheme = str(error), type(error).__name__, self.scheme
        variables, bucket = KEY_VARIABLES[scheme], f"{BUCKET_WORDS[scheme]} {self.bucket!r}"
        if kind in ("PermissionDeniedError", "UnauthenticatedError"):
            return ObjectProblem("access is denied", f"Check {variables}, and what they may do in {bucket}")
        if "Invalid Access Key" in text:  # with a character of it
            return ObjectProblem("the account key is not valid base64", f"Check {variables}")
        if isinstance(error, FileNotFoundError):
            return ObjectProblem(f"there is no {bucket}", "Create it, or check its name and the endpoint")
        if any(word in text for word in _NO_CREDENTIALS):
            return ObjectProblem("no credentials were found", f"Set {variables}")
        if any(word in text for word in _UNREACHABLE):
            advice = f"Check the network and {NETWORK_VARIABLES[scheme]}"
            verb = "does not reply" if "TimedOut" in text else "cannot be reached"
            return ObjectProblem(f"its server ({self.server}) {verb}", advice, is_unreachable=True)
        if busy := _BUSY.search(text):
            reason = f"its server ({self.server}) returned {busy[1].strip()}"
            return ObjectProblem(reason, "Try again later", is_unreachable=True)
        first = _LIBRARY_PREFIX.sub("", text.strip().partition("\n")[0]).removesuffix(".")
        return ObjectProblem(
            printable(shorten(redacted(first), 200)) or kind, f"Check {variables}, and the {bucket}"
        )


def put_object(
    store: BucketClients, key: str, file: BinaryIO, attributes: dict[str, str] | None = None
) -> None:
    """Upload a file from its beginning, a large one in parts; it is visible when all of it is there."""
    client = store.of_size(file.seek(0, os.SEEK_END))
    file.seek(0)
    import_module("obstore").put(client, key, file, attributes=attributes)


def create_object(store: BucketClients, key: str, file: BinaryIO, attributes: dict[str, str]) -> bool:
    """Upload a file unless there is an object of this name; return whether it was uploaded."""
    size = file.seek(0, os.SEEK_END)
    if size > MAX_PUT:
        # Only an upload in one request can depend on whether there is an object.
        put_object(store, key, file, attributes)
        return True
    file.seek(0)
    obstore, client = import_module("obstore"), store.of_size(size)
    try:
        obstore.put(client, key, file, attributes=attributes, mode="create", use_multipart=False)
    except obstore.exceptions.AlreadyExistsError:
        return False
    return True


def size_of_object(store: BucketClients, key: str) -> int | None:
    """Return the size of an object; None if there is none, or no bucket."""
    try:
        return int(import_module("obstore").head(store.requests, key)["size"])
    except FileNotFoundError:
        return None


def attributes_of_object(store: BucketClients, key: str) -> dict[str, str] | None:
    """Return the attributes of an object, None if there is none; a missing bucket raises."""
    try:
        # Not a HEAD, whose response does not tell a missing bucket from a missing object.
        return dict(import_module("obstore").get(store.requests, key).attributes)
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            raise
        return None


class ObjectTarget(OutputTarget):
    """An object that is uploaded when it is complete; until then it is a file without a name."""

    def __init__(self, address: ObjectAddress, store: BucketClients) -> None:
        self._address, self._store = address, store
        with translate_os_errors("A temporary file"):
            stream = TemporaryFile(buffering=1 << 18)  # noqa: SIM115 - `discard` closes it
        super().__init__(address.location, stream)  # type: ignore[arg-type]

    def commit(self) -> None:
        try:
            with translate_os_errors("A temporary file"):
                self.stream.flush()
            with translate_object_errors(self._address):
                put_object(self._store, self._address.key, self.stream)
        finally:
            self.discard()

    def discard(self) -> None:
        with suppress(OSError):
            self.stream.close()


def open_object(location: str, *, refuse: bool) -> ObjectTarget:
    """Return the target of an address; with `refuse`, InvalidSetting is raised if the object exists.

    A bucket that is missing, or that cannot be read, is refused too.
    """
    address = ObjectAddress.read(location)
    store = address.open()
    if refuse:
        try:
            found = attributes_of_object(store, address.key)
        except Exception as error:
            problem = address.explain(error)
            more = ". If you may only write to it, add --overwrite" if "denied" in problem.reason else ""
            raise InvalidSetting(location, f"{problem.reason}. {problem.advice}{more}") from error
        if found is not None:
            raise InvalidSetting(location, "already exists. Add --overwrite to replace it")
    return ObjectTarget(address, store)


def object_exists(location: str) -> bool:
    """Return whether an address names an object; raises ExportFailed if that cannot be found out."""
    address = ObjectAddress.read(location)
    with translate_object_errors(address):
        return size_of_object(address.open(), address.key) is not None


@contextmanager
def translate_object_errors(address: ObjectAddress) -> Iterator[None]:
    """Turn an error of the library into ExportFailed."""
    try:
        yield
    except Exception as error:
        problem = address.explain(error)
        kind = ExportUnavailable if problem.is_unreachable else ExportFailed
        raise kind(address.location, problem.reason, f"{problem.advice}, then export again") from error


def _read_endpoint(scheme: str) -> str:
    """Return the address of the server from the environment, if one is set; raises InvalidSetting."""
    for name in ENDPOINTS[scheme]:
        if value := os.environ.get(name):
            # The library ends the program with a panic at some that are none.
            if not value.startswith(("http://", "https://")):
                raise InvalidSetting(name, f"must begin with http:// or https://; got {shorten(value)!r}")
            return value
    return ""


def _profile_credentials() -> dict[str, Any]:
    """Return credentials of ~/.aws, which only boto3 reads, if it is installed and nothing else is set."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or find_spec("boto3") is None:
        return {}
    session = import_module("boto3").Session()
    if session.get_credentials() is None:
        return {}
    return {"credential_provider": import_module("obstore.auth.boto3").Boto3CredentialProvider(session)}


def _library(name: str, location: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidSetting(location, f"needs obstore. Run: {install_command('s3')}") from error
