"""The object store that has the segments: the interface, and its implementation by obstore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from wirekafka.codec.batch import Buffer
from wirekafka.errors import Error, KafkaError

_EXTRA = "tiered storage needs the package obstore: pip install 'wirekafka[tier]'"
_FILE = "file://"
_PART_BYTES = 8 << 20
"""Of a large object that is uploaded in parts."""
_PARTS_AT_ONCE = 4


class StoreError(Exception):
    """A request that failed in the store or on the way, and may succeed later."""


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
        try:
            from obstore.store import from_url
        except ImportError:
            raise KafkaError(Error.INVALID_CONFIG, _EXTRA) from None
        try:
            return cls(from_url(url, **options))
        except Exception as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{url}: {_first_line(error)}") from error

    @classmethod
    def of_directory(cls, path: str) -> ObjectStore:
        """The files of a directory, which is created. Raises KafkaError(INVALID_CONFIG)."""
        try:
            from obstore.store import LocalStore
        except ImportError:
            raise KafkaError(Error.INVALID_CONFIG, _EXTRA) from None
        try:
            return cls(LocalStore(path, mkdir=True))
        except Exception as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{path}: {_first_line(error)}") from error

    @classmethod
    def of_existing(cls, url: str) -> ObjectStore:
        """As `of_url`, to read only: a directory is not created. Raises KafkaError."""
        if not url.startswith(_FILE):
            return cls.of_url(url)
        path = unquote(url.removeprefix(_FILE))
        try:
            from obstore.store import LocalStore
        except ImportError:
            raise KafkaError(Error.INVALID_CONFIG, _EXTRA) from None
        try:
            return cls(LocalStore(path))
        except Exception as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{path}: {_first_line(error)}") from error

    @classmethod
    def in_memory(cls) -> ObjectStore:
        """An empty store in the memory of this process."""
        from obstore.store import MemoryStore

        return cls(MemoryStore())

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


class _Failures:
    """Converts the errors of obstore, which have no common base class below Exception."""

    __slots__ = ("_key",)

    def __init__(self, key: str):
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise ObjectMissing(self._key) from error
        if isinstance(error, Exception) and not isinstance(error, StoreError):
            raise StoreError(f"{self._key}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """An error's message without the details that obstore adds for its developers."""
    return str(error).partition("\n")[0]
