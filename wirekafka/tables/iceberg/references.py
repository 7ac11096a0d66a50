"""Files that the snapshots of a table reference: manifest lists, manifests, data, deletes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.concurrent import ExecutorFactory


@dataclass(slots=True)
class References:
    """Locations that some snapshots need, gathered snapshot by snapshot; each file is read once."""

    manifest_lists: set[str] = field(default_factory=set)
    manifests: dict[str, ManifestFile] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)
    """Data files and files of deletes, of the manifests whose entries were read."""
    _read: set[str] = field(default_factory=set)

    def add_manifests(self, snapshots: Iterable[Snapshot], io: FileIO) -> None:
        """Read the manifest lists of snapshots."""
        new = [each for each in snapshots if each.manifest_list not in self.manifest_lists]
        for manifests in ExecutorFactory.get_or_create().map(lambda each: each.manifests(io), new):
            self.manifests.update((each.manifest_path, each) for each in manifests)
        self.manifest_lists.update(each.manifest_list for each in new)

    def add_contents(self, manifests: Iterable[ManifestFile], io: FileIO) -> None:
        """Read the entries of manifests, except entries of files that a snapshot removed."""
        new = [each for each in manifests if each.manifest_path not in self._read]
        for paths in ExecutorFactory.get_or_create().map(lambda each: _live(each, io), new):
            self.contents.update(paths)
        self._read.update(each.manifest_path for each in new)

    def add(self, metadata: TableMetadata, io: FileIO) -> None:
        """Gather all that a table's metadata reaches."""
        self.add_manifests(metadata.snapshots, io)
        self.add_contents(self.manifests.values(), io)

    def locations(self) -> Iterator[str]:
        """All files that were gathered."""
        yield from self.manifest_lists
        yield from self.manifests
        yield from self.contents


def statistics_files(metadata: TableMetadata) -> set[str]:
    """Puffin and Parquet files of statistics that the metadata references."""
    files = [*metadata.statistics, *metadata.partition_statistics]
    return {each.statistics_path for each in files}


def _live(manifest: ManifestFile, io: FileIO) -> list[str]:
    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
    return [entry.data_file.file_path for entry in entries]
