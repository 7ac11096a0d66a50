"""Snapshots in an object store: each segment is sent once, and small files are packed together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from wirekafka.log.checkpoints import LOCK, META_PROPERTIES
from wirekafka.log.files import Disk, OpenedFile, ReadableDisk
from wirekafka.snapshot.manifest import MANIFEST, Manifest, UnusableSnapshot, manifest_from
from wirekafka.snapshot.target import TargetDirectory
from wirekafka.tiered.store import Store

_VERSION = 1
_SEGMENTS, _PACKS, _SNAPSHOTS, _CREATING = "segments", "packs", "snapshots", "creating"
_PACKED_BYTES = 64 << 10
"""Files below this size are packed into one object: a node has several for each partition."""
_READ_BYTES = 4 << 20
_DAY_MS = 86_400_000
_HASH_DIGITS = 32


class SourceIdentity(NamedTuple):
    """What identifies an unchanged file of a node without reading it."""

    path: str
    device: int
    inode: int
    modified_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """A file of a snapshot: an object, or a range of its pack, which begins at `start`."""

    path: str
    key: str
    start: int
    size_bytes: int
    sha256: str
    origin: SourceIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSnapshot:
    """The description of a snapshot in a store."""

    name: str
    manifest: Manifest
    files: Sequence[ArchivedFile]

    @property
    def id(self) -> str:
        """The name of its description, which sorts by time."""
        return f"{self.manifest.at_ms:015d}-{self.name}"

    def objects(self) -> set[str]:
        """The objects it consists of."""
        return {file.key for file in self.files}


class Sent(NamedTuple):
    """What a snapshot needed to send, beside what the store had."""

    snapshot: ArchivedSnapshot
    sent_bytes: int
    size_bytes: int


class Archive:
    """The snapshots in a store. Raises StoreError, UnusableSnapshot."""

    def __init__(self, store: Store):
        self._store = store

    def snapshots(self) -> list[ArchivedSnapshot]:
        """All complete snapshots, oldest first."""
        keys = sorted(each.key for each in self._store.list(_SNAPSHOTS))
        return [_decoded(bytes(self._store.get(key)), key) for key in keys]

    def find(self, name: str) -> ArchivedSnapshot:
        """The snapshot of a name, or the newest one up to a time in ms."""
        return chosen(self.snapshots(), name)

    def send(self, disk: ReadableDisk, directory: str, name: str) -> Sent:
        """Store the snapshot in a directory. Its description, which is sent last, completes it."""
        earlier = self.snapshots()
        if any(each.name == name for each in earlier):
            raise UnusableSnapshot(f"there is a snapshot {name} already: give another --name")
        manifest = manifest_from(disk.read(f"{directory}/{MANIFEST}"), directory)
        intent = f"{_CREATING}/{manifest.at_ms:015d}-{name}"
        self._store.put(intent, [b"{}"])
        try:
            sending = _Sending(self._store, disk, directory, earlier)
            files = sending.send_all(f"{_PACKS}/{manifest.at_ms:015d}-{name}")
            snapshot = ArchivedSnapshot(name=name, manifest=manifest, files=files)
            self._require_all(snapshot)
            self._store.put(f"{_SNAPSHOTS}/{snapshot.id}.json", [_encoded(snapshot)])
        finally:
            self._store.delete(intent)
        return Sent(snapshot, sending.sent_bytes, sum(file.size_bytes for file in files))

    def verify(self, snapshot: ArchivedSnapshot, *, sizes: Mapping[str, int]) -> list[str]:
        """What is missing or too short of a snapshot, given the sizes of all objects by key."""
        wanted: dict[str, int] = {}
        for file in snapshot.files:
            wanted[file.key] = max(wanted.get(file.key, 0), file.start + file.size_bytes)
        return [
            f"{snapshot.name}: {key} is missing"
            if key not in sizes
            else f"{snapshot.name}: {key} has {sizes[key]} of {size_bytes} bytes"
            for key, size_bytes in wanted.items()
            if sizes.get(key, -1) != size_bytes
        ]

    def damaged(self, snapshot: ArchivedSnapshot) -> list[str]:
        """The files of a snapshot whose contents, which are read, differ from its description."""
        found = []
        for file in snapshot.files:
            digest = sha256()
            for piece in self._pieces(file):
                digest.update(piece)
            if digest.hexdigest() != file.sha256:
                found.append(f"{snapshot.name}: {file.path} in {file.key} is damaged")
        return found

    def sizes(self) -> dict[str, int]:
        """The sizes of the objects that snapshots consist of, by key."""
        return {
            each.key: each.size_bytes
            for folder in (_SEGMENTS, _PACKS)
            for each in self._store.list(folder)
        }

    def expire(self, expired: Iterable[ArchivedSnapshot], now_ms: int) -> int:
        """Delete snapshots, and all objects that no other snapshot has; returns how many objects.

        Descriptions go first, so that no listed snapshot lacks an object. While a snapshot is being
        created, objects stay: it may have found them.
        """
        for snapshot in expired:
            self._store.delete(f"{_SNAPSHOTS}/{snapshot.id}.json")
        starts_ms = [int(each.key.partition("/")[2][:15]) for each in self._store.list(_CREATING)]
        if any(now_ms - start_ms < _DAY_MS for start_ms in starts_ms):
            return 0
        kept = {key for snapshot in self.snapshots() for key in snapshot.objects()}
        unused = [key for key in self.sizes() if key not in kept]
        for key in unused:
            self._store.delete(key)
        return len(unused)

    def restore(self, snapshot: ArchivedSnapshot, disk: Disk, path: str) -> None:
        """Make the directory `path` of a snapshot.

        Raises UnusableSnapshot, OSError, StoreError; nothing of the name is left then.
        """
        target = TargetDirectory(disk, path)
        target.begin()
        try:
            last = {}
            for file in snapshot.files:
                if file.path.rpartition("/")[2] == META_PROPERTIES:
                    last[file.path] = self._read(file)
                elif file.path != MANIFEST:
                    self._restore_file(file, disk, target.incomplete)
            target.finish(last)
        except BaseException:
            target.discard()
            raise

    def _read(self, file: ArchivedFile) -> bytes:
        data = b"".join(self._pieces(file))
        _check(file, sha256(data).hexdigest())
        return data

    def _restore_file(self, file: ArchivedFile, disk: Disk, directory: str) -> None:
        path = f"{directory}/{file.path}"
        above = path.rpartition("/")[0]
        if not disk.exists(above):
            disk.make_directory(above)
        digest = sha256()
        written = disk.create(path)
        for piece in self._pieces(file):
            digest.update(piece)
            written.append((piece,), len(piece))
        written.close()
        _check(file, digest.hexdigest())

    def _pieces(self, file: ArchivedFile) -> Iterator[bytes]:
        end = file.start + file.size_bytes
        for start in range(file.start, end, _READ_BYTES):
            yield bytes(self._store.get_range(file.key, start, min(start + _READ_BYTES, end)))

    def _require_all(self, snapshot: ArchivedSnapshot) -> None:
        missing = self.verify(snapshot, sizes=self.sizes())
        if missing:
            raise UnusableSnapshot(
                f"{missing[0]}: it was deleted meanwhile; create the snapshot again"
            )


class _Sending:
    """Sends the files of one snapshot; what the store has is not sent again."""

    def __init__(
        self, store: Store, disk: ReadableDisk, directory: str, earlier: Sequence[ArchivedSnapshot]
    ):
        self._store = store
        self._disk = disk
        self._directory = directory
        self._known = {
            file.origin: file for each in earlier for file in each.files if file.origin is not None
        }
        self._keys = {file.key for each in earlier for file in each.files}
        self.sent_bytes = 0

    def send_all(self, pack_key: str) -> list[ArchivedFile]:
        """Send all files; small ones become parts of the object `pack_key`."""
        large, small = [], []
        for path, modified_ms, size_bytes in self._files(""):
            if size_bytes >= _PACKED_BYTES:
                large.append(self._send_file(path, modified_ms))
            else:
                small.append(path)
        return [*large, *self._send_pack(small, pack_key)]

    def _files(self, below: str) -> Iterator[tuple[str, int, int]]:
        entries = self._disk.list_directory(f"{self._directory}/{below}".rstrip("/"))
        for entry in sorted(entries):
            path = f"{below}{entry.name}"
            if entry.is_directory:
                yield from self._files(f"{path}/")
            elif entry.name != LOCK:
                yield path, entry.modified_ms, entry.size_bytes

    def _send_file(self, path: str, modified_ms: int) -> ArchivedFile:
        file = self._disk.open_to_read(f"{self._directory}/{path}")
        try:
            origin = SourceIdentity(path, *file.identity, modified_ms, file.size_bytes)
            known = self._known.get(origin)
            if known is not None:
                return known
            digest = sha256()
            for piece in _pieces_of(file):
                digest.update(piece)
            stored = ArchivedFile(
                path=path,
                key=f"{_SEGMENTS}/{path}-{digest.hexdigest()[:_HASH_DIGITS]}",
                start=0,
                size_bytes=file.size_bytes,
                sha256=digest.hexdigest(),
                origin=origin,
            )
            if stored.key not in self._keys:
                self._store.put(stored.key, _pieces_of(file))
                self.sent_bytes += stored.size_bytes
            return stored
        finally:
            file.close()

    def _send_pack(self, paths: Sequence[str], key: str) -> list[ArchivedFile]:
        files: list[ArchivedFile] = []
        pieces = []
        position = 0
        for path in paths:
            data = self._disk.read(f"{self._directory}/{path}")
            digest = sha256(data).hexdigest()
            files.append(
                ArchivedFile(
                    path=path, key=key, start=position, size_bytes=len(data), sha256=digest
                )
            )
            pieces.append(data)
            position += len(data)
        self._store.put(key, pieces)
        self.sent_bytes += position
        return files


def chosen(snapshots: Sequence[ArchivedSnapshot], name: str) -> ArchivedSnapshot:
    """The snapshot of a name, or the newest one up to a time in ms. Raises UnusableSnapshot."""
    for snapshot in snapshots:
        if name in (snapshot.name, snapshot.id):
            return snapshot
    if name.isdigit():
        until = [each for each in snapshots if each.manifest.at_ms <= int(name)]
        if until:
            return until[-1]
    names = ", ".join(each.name for each in snapshots[-10:]) or "none"
    raise UnusableSnapshot(f"there is no snapshot {name}; the newest are: {names}")


def _check(file: ArchivedFile, digest: str) -> None:
    if digest != file.sha256:
        raise UnusableSnapshot(f"{file.path} in {file.key} is damaged")


def _pieces_of(file: OpenedFile) -> Iterator[bytes]:
    for position in range(0, file.size_bytes, _READ_BYTES):
        yield file.pread(min(_READ_BYTES, file.size_bytes - position), position)


def _encoded(snapshot: ArchivedSnapshot) -> bytes:
    fields = {
        "version": _VERSION,
        "name": snapshot.name,
        "manifest": json.loads(snapshot.manifest.text()),
        "files": [asdict(file) for file in snapshot.files],
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def _decoded(text: bytes, key: str) -> ArchivedSnapshot:
    try:
        fields = json.loads(text)
        version = fields["version"]
        files = [ArchivedFile(**file) for file in fields["files"]]
        name, manifest = fields["name"], json.dumps(fields["manifest"]).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise UnusableSnapshot(f"{key} cannot be read: {error!r}") from None
    if version != _VERSION:
        raise UnusableSnapshot(f"{key} has version {version}, not {_VERSION}")
    files = [
        file if file.origin is None else replace(file, origin=SourceIdentity(*file.origin))
        for file in files
    ]
    return ArchivedSnapshot(name=name, manifest=manifest_from(manifest, key), files=files)
