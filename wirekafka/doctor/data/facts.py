"""The facts about the log directories of one node that checks need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wirekafka.log.directories.directory_identity import DirectoryIdentity
from wirekafka.log.files import FileAccess
from wirekafka.metadata.image.image import MetadataImage


class FoundLog(NamedTuple):
    """A log in a directory; the topic id is empty without a readable `partition.metadata`."""

    topic: str
    partition: int
    topic_id: bytes
    size_bytes: int

    @property
    def name(self) -> str:
        """TOPIC-PARTITION."""
        return f"{self.topic}-{self.partition}"


class MarkedLog(NamedTuple):
    """A directory that is no log in service: `mark` is delete, future or stray."""

    name: str
    mark: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFiles:
    """One log directory; sizes of its volume are in bytes."""

    path: str
    identity: DirectoryIdentity | None = None
    problem: str = ""
    """Why the identity is not known."""
    is_in_use: bool = False
    is_clean: bool = False
    has_metadata: bool = False
    logs: Sequence[FoundLog] = ()
    marked: Sequence[MarkedLog] = ()
    foreign: Sequence[str] = ()
    """The names of directories that are no logs."""
    bad_checkpoints: Mapping[str, str] = field(default_factory=dict)
    """Why a checkpoint cannot be read, by its file's name."""
    free_bytes: int = -1
    total_bytes: int = -1
    access: Sequence[FileAccess] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """The log directories of one node, and the cluster's metadata as far as they have it."""

    directories: Sequence[DirectoryFiles]
    image: MetadataImage | None = None
    problem: str = ""
    """Why the metadata cannot be read."""
