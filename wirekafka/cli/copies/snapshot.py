"""`wirekafka snapshot`: consistent copies of a node's data, whether the node runs or not."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from wirekafka.cli.output import AsJson, show_json, show_line, show_table
from wirekafka.client.client import CliError
from wirekafka.log.files import RealDisk
from wirekafka.server.snapshots.taking import take
from wirekafka.snapshot.archive import Archive, ArchivedSnapshot
from wirekafka.snapshot.creation import Created, SnapshotOptions
from wirekafka.snapshot.local_snapshots import (
    LocalSnapshot,
    is_snapshot,
    is_unchanged,
    problems,
    snapshots_in,
)
from wirekafka.snapshot.manifest import UnusableSnapshot
from wirekafka.snapshot.placing import Sharing
from wirekafka.tiered.store import ObjectStore, StoreError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_STAGING_SUFFIX = ".sending"
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE = re.compile(r"(\d+)([smhdw])")
_COLUMNS = ("name", "time", "node", "cluster", "logs", "bytes")

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="The log directory of a node that runs on this machine or is stopped; of a stopped"
        " node with several: DIR,DIR,...",
    ),
]
Copies = Annotated[
    bool,
    typer.Option(
        "--copy",
        help="Copy every file, rather than link those that do not change: for data that Apache"
        " Kafka goes on to use.",
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The URL of an object store (s3://, gs://, az://, file://), a snapshot, or a directory"
        " with snapshots.",
    ),
]


@app.command()
def create(
    data: Data,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A directory that does not exist yet, or the URL of an object store (s3://,"
            " gs://, az://, file://), where files that it has are not sent again.",
        ),
    ],
    *,
    name: Annotated[
        str | None, typer.Option(help="In an object store; the time if it is not given.")
    ] = None,
    staging: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The directory in which files are collected that are sent to a store, best on the"
            " disk of DATA; beside DATA if it is not given.",
        ),
    ] = None,
    copy: Copies = False,
    as_json: AsJson = False,
) -> None:
    """Copy a node's data as it is at one instant; the copy is a log directory."""
    if "://" in target:
        _send(data, target, name, staging, as_json)
        return
    sharing = Sharing.COPIES if copy else Sharing.LINKS
    path = str(Path(target).absolute())
    with _Refusals():
        show_created(
            take(RealDisk(), paths_of(data), path, SnapshotOptions(sharing=sharing)), as_json
        )


@app.command("list")
def list_snapshots(source: Source, *, as_json: AsJson = False) -> None:
    """List the snapshots in a store or in a directory, oldest first."""
    with _Refusals():
        rows = [_row(each) for each in _found(source)]
    if as_json:
        show_json(rows)
        return
    show_table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])


@app.command()
def verify(
    source: Source,
    *,
    at: Annotated[
        str | None, typer.Option(metavar="TIME|NAME", help="One snapshot; all if not given.")
    ] = None,
    sizes_only: Annotated[
        bool,
        typer.Option(
            "--sizes-only", help="In a store, compare names and sizes; nothing is downloaded."
        ),
    ] = False,
) -> None:
    """Read snapshots and report what is damaged or missing; the status is 1 if anything is."""
    found: list[str] = []
    with _Refusals():
        if "://" in source:
            archive = Archive(ObjectStore.of_existing(source))
            snapshots = archive.snapshots() if at is None else [archive.find(_at(at))]
            sizes = archive.sizes()
            for stored in snapshots:
                missing = archive.verify(stored, sizes=sizes)
                found += missing
                if not missing and not sizes_only:
                    found += archive.damaged(stored)
            count = len(snapshots)
        else:
            local = snapshots_in(RealDisk(), source)
            chosen = local if at is None else [_local(local, at)]
            for each in chosen:
                found += problems(RealDisk(), each)
            count = len(chosen)
    for problem in found:
        show_line(problem)
    if found:
        raise typer.Exit(1)
    show_line(f"{count} snapshots are whole")


@app.command()
def expire(
    source: Source,
    *,
    keep: Annotated[int | None, typer.Option(metavar="N", help="Keep the newest N.", min=1)] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Delete those older than this: 12h, 30d, 4w.")
    ] = None,
) -> None:
    """Delete old snapshots, and what only they consist of; the newest one is always kept.

    So is a snapshot on which a node was started: it is this node's data now.
    """
    if (keep is None) == (older_than is None):
        raise CliError("give one of --keep N and --older-than AGE")
    now_ms = time.time_ns() // 1_000_000
    with _Refusals():
        found = _found(source)
        if keep is not None:
            expired = list(found[:-keep])
        else:
            limit_ms = now_ms - _age_ms(older_than or "")
            expired = [each for each in found[:-1] if each.manifest.at_ms < limit_ms]
        used = _used(expired)
        _remove(source, [each for each in expired if each not in used], now_ms)
    for each in expired:
        show_line(f"{each.name} is {'kept: a node has used it' if each in used else 'deleted'}")


@app.command()
def restore(
    source: Source,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A directory that does not exist yet.")
    ],
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|NAME",
            help="The snapshot of this name, or the newest one up to a time such as"
            " 2026-11-27T10:00:00Z; the newest of all if it is not given.",
        ),
    ] = None,
) -> None:
    """Make a log directory of a snapshot, for a node to start on."""
    path = str(data.absolute())
    with _Refusals():
        if "://" in source:
            archive = Archive(ObjectStore.of_existing(source))
            stored = archive.find(_at(at))
            archive.restore(stored, RealDisk(), path)
            name = stored.name
        else:
            local = _local(snapshots_in(RealDisk(), source), at)
            take(RealDisk(), _places(local), path, SnapshotOptions(is_described=False))
            name = local.name
    show_line(f"{path} is the snapshot {name}: start it with `wirekafka serve --data {path}`")


def paths_of(data: str) -> list[str]:
    """The absolute paths of log directories."""
    return [str(Path(path).absolute()) for path in data.split(",")]


def show_created(made: Created, as_json: bool) -> None:
    """Print what a snapshot consists of."""
    if as_json:
        show_json(
            {
                "path": made.path,
                "at_ms": made.at_ms,
                "logs": made.logs,
                "size_bytes": made.size_bytes,
                "linked_bytes": made.linked_bytes,
                "copied_bytes": made.copied_bytes,
            }
        )
        return
    show_line(
        f"{made.path}: {made.logs} logs, {made.size_bytes:,} bytes,"
        f" of which {made.linked_bytes:,} are shared with the node"
    )


class _Refusals:
    """Converts errors of snapshots and stores to errors of a command."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnusableSnapshot | StoreError):
            raise CliError(str(error)) from None


def _send(data: str, url: str, name: str | None, staging: Path | None, as_json: bool) -> None:
    disk, paths = RealDisk(), paths_of(data)
    collected = _collected(Path(paths[0]), staging)
    with _Refusals():
        archive = Archive(ObjectStore.of_url(url))
        if is_snapshot(disk, collected):
            disk.remove_tree(collected)  # Of a command that was killed.
        made = take(disk, paths, collected, SnapshotOptions())
        try:
            sent = archive.send(disk, collected, name or _time_text(made.at_ms).replace(":", "-"))
        finally:
            disk.remove_tree(collected)
    if as_json:
        show_json(
            {**_row(sent.snapshot), "files_bytes": sent.size_bytes, "sent_bytes": sent.sent_bytes}
        )
        return
    show_line(
        f"{sent.snapshot.name}: {made.logs} logs, {sent.size_bytes:,} bytes,"
        f" of which {sent.sent_bytes:,} were sent"
    )


def _collected(data: Path, staging: Path | None) -> str:
    """Where the files of a node are collected: a name that nothing else has."""
    above = data.parent if staging is None else staging.absolute()
    above.mkdir(parents=True, exist_ok=True)
    return str(above / (data.name + _STAGING_SUFFIX))


def _found(source: str) -> Sequence[ArchivedSnapshot | LocalSnapshot]:
    if "://" in source:
        return Archive(ObjectStore.of_existing(source)).snapshots()
    return snapshots_in(RealDisk(), source)


def _used(snapshots: Sequence[ArchivedSnapshot | LocalSnapshot]) -> list[LocalSnapshot]:
    """The snapshots that are the data of a node now."""
    return [
        each
        for each in snapshots
        if isinstance(each, LocalSnapshot) and not is_unchanged(RealDisk(), each)
    ]


def _remove(source: str, expired: Any, now_ms: int) -> None:
    if "://" in source:
        if expired:
            Archive(ObjectStore.of_existing(source)).expire(expired, now_ms)
        return
    for each in expired:
        RealDisk().remove_tree(each.path)


def _local(found: list[LocalSnapshot], at: str | None) -> LocalSnapshot:
    if not found:
        raise UnusableSnapshot("there is no snapshot")
    for each in found:
        if at == each.name:
            return each
    time_ms = _at(at)
    until = [each for each in found if time_ms.isdigit() and each.manifest.at_ms <= int(time_ms)]
    if not until:
        raise UnusableSnapshot(f"there is no snapshot {at}")
    return until[-1]


def _places(snapshot: LocalSnapshot) -> list[str]:
    if snapshot.manifest.directories == 1:
        return [snapshot.path]
    return [f"{snapshot.path}/{number}" for number in range(snapshot.manifest.directories)]


def _at(at: str | None) -> str:
    """A time as milliseconds since 1970; a name as it is; a time beyond all for None."""
    if at is None:
        return str(1 << 62)
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return at
    return str(int(found.timestamp() * 1000))


def _age_ms(text: str) -> int:
    match = _AGE.fullmatch(text)
    if match is None:
        raise CliError(f"--older-than {text}: it is a number and one of s, m, h, d, w, such as 30d")
    return int(match[1]) * _UNITS_MS[match[2]]


def _row(snapshot: ArchivedSnapshot | LocalSnapshot) -> dict[str, Any]:
    manifest = snapshot.manifest
    return {
        "name": snapshot.name,
        "time": _time_text(manifest.at_ms),
        "node": manifest.node_id,
        "cluster": manifest.cluster_id,
        "logs": len(manifest.logs),
        "bytes": manifest.size_bytes,
    }


def _time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
