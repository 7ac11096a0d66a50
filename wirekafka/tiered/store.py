"""The object store that has the segments: the interface, and its implementation by obstore."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from wirekafka.codec.batch import Buffer
from wirekafka.errors import Error, KafkaError

_EXTRA = "tiered storage needs the package obstore: pip install 'wirekafka[tier]'"
_FILE = "file://"
_PLAIN = "http://"
_VARIABLES = {"s3": "AWS_", "az": "AZURE_"}
"""The beginning of environment variables, by the scheme of URLs."""
_ENDPOINTS = ("ENDPOINT_URL_S3", "ENDPOINT_URL", "ENDPOINT", "STORAGE_ENDPOINT")
_CLIENT_OPTIONS = (
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "timeout",
    "user_agent",
)
"""Options of HTTP that obstore takes from variables, unless any is given to it."""
_CHECK_S = 5
_REFUSALS = {
    "AuthenticationFailed",
    "ContainerNotFound",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "NoSuchBucket",
    "SignatureDoesNotMatch",
}
"""Codes of S3, Google Cloud Storage and Azure after which no other request succeeds either."""
_NO_PLACE = ("ContainerNotFound", "NoSuchBucket")
_RESPONSE = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<\n]*)")
_PATH = re.compile(r"(https?://[^/\s]+)/\S*")
_DURATION = re.compile(r" in \d[\d.]*(?:ns|µs|ms|s)\b")
_PART_BYTES = 8 << 20
"""Of a large object that is uploaded in parts."""
_PARTS_AT_ONCE = 4


class StoreError(Exception):
    """A request that failed in the store or on the way, and may succeed later."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason or message
        """The same for all objects that the same failure is met with."""


class ObjectMissing(StoreError):
    """The object does not exist. No store that is consistent forgets it temporarily."""


class DamagedObject(StoreError):
    """An object whose contents are wrong: another request would return the same."""


class StoredObject(NamedTuple):
    """An object in a listing."""

    key: str
    size_bytes: int


class Store(Protocol):
    """Objects by key. Objects are never changed: each has a key of its own.

    Every method blocks; all may be called in any thread. Raises StoreError.
    """

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        """Store an object; it exists as a whole or not at all."""

    def get(self, key: str) -> Buffer:
        """A whole object."""

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        """The bytes of an object from a position up to another one."""

    def delete(self, key: str) -> None:
        """Delete an object; no error if there is none."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects in a folder and in those below it."""


class ObjectStore:
    """Files, S3, Google Cloud Storage, Azure or memory, by obstore."""

    def __init__(self, opened: Any):
        """`opened` is one of obstore's stores."""
        import obstore

        self._obstore = obstore
        self._store = opened

    @classmethod
    def of_url(cls, url: str, **options: Any) -> ObjectStore:
        """Open the store of a URL, such as `s3://bucket/prefix` or `file:///mnt/tier`.

        Credentials and endpoints come from the usual environment variables.
        Raises KafkaError(INVALID_CONFIG).
        """
        if url.startswith(_FILE):
            return cls.of_directory(unquote(url.removeprefix(_FILE)))
        if url.startswith("memory:"):
            return cls.in_memory()
        stores = _obstore_stores()
        try:
            return cls(stores.from_url(url, **_plain_text(url, options), **options))
        except Exception as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{url}: {_summary(error)}") from error

    @classmethod
    def check_url(cls, url: str, **options: Any) -> None:
        """Send one request to the store of a URL, within seconds.

        Raises KafkaError(INVALID_CONFIG) where no request would succeed: for a bucket that does
        not exist, or for credentials that are not known. Raises StoreError for other errors, and
        without an answer: the configuration may be right.
        """
        if url.startswith((_FILE, "memory:")):
            return
        limits = {"retry_timeout": timedelta(seconds=_CHECK_S), "max_retries": 2}
        try:
            next(cls.of_url(url, retry_config=limits, **options).list(""), None)
        except StoreError as error:
            if error.reason.partition(":")[0] in _REFUSALS:
                raise KafkaError(Error.INVALID_CONFIG, f"{url}: {error.reason}") from error
            raise

    @classmethod
    def of_directory(cls, path: str) -> ObjectStore:
        """The files of a directory, which is created. Raises KafkaError(INVALID_CONFIG)."""
        return cls._of_directory(path, creates=True)

    @classmethod
    def of_existing(cls, url: str) -> ObjectStore:
        """As `of_url`, to read only: a directory is not created. Raises KafkaError."""
        if not url.startswith(_FILE):
            return cls.of_url(url)
        return cls._of_directory(unquote(url.removeprefix(_FILE)), creates=False)

    @classmethod
    def _of_directory(cls, path: str, *, creates: bool) -> ObjectStore:
        stores = _obstore_stores()
        try:
            return cls(stores.LocalStore(path, mkdir=creates))
        except Exception as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{path}: {_summary(error)}") from error

    @classmethod
    def in_memory(cls) -> ObjectStore:
        """An empty store in the memory of this process. Raises KafkaError(INVALID_CONFIG)."""
        return cls(_obstore_stores().MemoryStore())

    def put(self, key: str, pieces: Iterable[Buffer]) -> None:
        with _Failures(key):
            self._obstore.put(
                self._store,
                key,
                iter(pieces),
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )

    def get(self, key: str) -> Buffer:
        with _Failures(key):
            return memoryview(self._obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        with _Failures(key):
            return memoryview(self._obstore.get_range(self._store, key, start=start, end=end))

    def delete(self, key: str) -> None:
        try:
            with _Failures(key):
                self._obstore.delete(self._store, key)
        except ObjectMissing:
            pass  # Stores on S3 do not report it either.

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with _Failures(prefix):
            for found in self._obstore.list(self._store, prefix or None):
                for each in found:
                    yield StoredObject(each["path"], each["size"])


def _obstore_stores() -> Any:
    """The stores of the package obstore. Raises KafkaError(INVALID_CONFIG) without the extra."""
    try:
        from obstore import store
    except ImportError:
        raise KafkaError(Error.INVALID_CONFIG, _EXTRA) from None
    return store


class _Failures:
    """Converts the errors of obstore, which have no common base class below Exception."""

    __slots__ = ("_key",)

    def __init__(self, key: str):
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, StoreError):
            return
        summary = _summary(error)
        if isinstance(error, FileNotFoundError) and not summary.startswith(_NO_PLACE):
            raise ObjectMissing(self._key) from error
        message = f"{self._key}: {summary}" if self._key else summary
        raise StoreError(message, summary) from error


def _plain_text(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of obstore for an endpoint without TLS, without which it sends nothing there.

    Whoever names an address that begins with http:// wants it.
    """
    prefix = _VARIABLES.get(url.partition(":")[0])
    if prefix is None:
        return {}
    variables = [os.environ.get(prefix + name) for name in _ENDPOINTS]
    endpoint = next(filter(None, [options.get("endpoint"), *variables]), "")
    if not endpoint.lower().startswith(_PLAIN):
        return {}
    names = {name: os.environ.get(prefix + name.upper()) for name in _CLIENT_OPTIONS}
    given = {name: text for name, text in names.items() if text is not None}
    return {"client_options": {**given, "allow_http": True}}


def _summary(error: Exception) -> str:
    """An error in one line: what the store responded, or else the first line of the message.

    Further lines are details for developers of obstore. The text has neither times nor the object,
    so that a repeated error has the same text.
    """
    text = str(error)
    if response := _RESPONSE.search(text):
        return f"{response[1]}: {response[2]}"
    return _DURATION.sub("", _PATH.sub(r"\1", text.partition("\n")[0]))
