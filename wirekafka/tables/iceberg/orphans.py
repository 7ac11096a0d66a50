"""Files in a table's location that nothing references: remains of commits that failed or ended.

A process that ends between writing files and committing them leaves files that no snapshot knows.
Such files differ in nothing but their age from files of a commit under way: only those older than
an age that no commit reaches are removed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider

from wirekafka.tables.iceberg.data_files import delete_files
from wirekafka.tables.iceberg.references import References, statistics_files

HOUR_MS = 3_600_000
SHORTEST_AGE_MS = HOUR_MS
"""Younger files may belong to a commit under way, whatever the settings say."""
_SUFFIXES = (".parquet", ".orc", ".avro", ".metadata.json", ".puffin", ".stats")
"""Of files that Iceberg's writers make: others in the location are somebody's own."""


@dataclass(frozen=True, slots=True)
class OrphanRemoval:
    """When files without references are removed, and how many at once."""

    age_ms: int = 72 * HOUR_MS
    most_at_once: int = 1000


def remove_orphans(table: Table, removal: OrphanRemoval, now_ms: int) -> int:
    """Remove old files that neither the metadata nor a snapshot references; return how many.

    Removes none where pyiceberg has no Arrow file system for the location, or the table's files
    are outside of its location.
    """
    before_ms = now_ms - max(removal.age_ms, SHORTEST_AGE_MS)
    # The files are listed before the references are read: a file that was committed in between
    # has a reference.
    found = [
        location for folder in _folders(table) for location in _old_files(table, folder, before_ms)
    ]
    if not found:
        return 0
    references = References()
    orphans = sorted(set(found) - _referenced(table, references, found))[: removal.most_at_once]
    # Somebody may have added old files of the location to the table meanwhile.
    unneeded = sorted(set(orphans) - _referenced(table, references, orphans))
    delete_files(table.io, unneeded)
    return len(unneeded)


def _folders(table: Table) -> list[str]:
    """Where the table's data and metadata are, if that is within the table's own location."""
    provider: LocationProvider = table.location_provider()
    location = table.location().rstrip("/")
    folders = [provider.data_path, provider.metadata_path]
    return [each for each in folders if each.startswith(f"{location}/")]


def _old_files(table: Table, folder: str, before_ms: int) -> Iterator[str]:
    if not isinstance(table.io, PyArrowFileIO):
        return
    scheme, netloc, path = PyArrowFileIO.parse_location(folder, table.io.properties)
    file_system: FileSystem = table.io.fs_by_scheme(scheme, netloc)
    selector = FileSelector(path, allow_not_found=True, recursive=True)
    for info in file_system.get_file_info(selector):
        start = info.path.find(path)
        if start >= 0 and _is_old(info, before_ms):
            yield folder + info.path[start + len(path) :]


def _is_old(info: FileInfo, before_ms: int) -> bool:
    if info.type != FileType.File or info.mtime_ns is None or not info.path.endswith(_SUFFIXES):
        return False
    return bool(info.mtime_ns // 1_000_000 < before_ms)


def _referenced(table: Table, references: References, locations: Iterable[str]) -> set[str]:
    """The locations with the name of a file that the table needs now.

    Names of files have a UUID. Their folders are not compared: writers may write one folder in
    several ways, as s3 and s3a, or by a link.
    """
    table.refresh()
    metadata = table.metadata
    references.add(metadata, table.io)
    log = [entry.metadata_file for entry in metadata.metadata_log]
    needed = [table.metadata_location, *log, *statistics_files(metadata), *references.locations()]
    names = {_name(each) for each in needed}
    return {each for each in locations if _name(each) in names}


def _name(location: str) -> str:
    return location.rpartition("/")[2]
