"""Checks of the logs in log directories: leftovers, and logs that the metadata does not know."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.doctor.data.facts import DirectoryFiles, FoundLog, NodeFiles
from wirekafka.doctor.finding import Finding, Severity, listed
from wirekafka.metadata.image.image import MetadataImage


def check_logs(node: NodeFiles) -> Iterator[Finding]:
    """Find logs that the cluster's metadata does not have, or has under another id."""
    for directory in node.directories:
        if node.image is not None and directory.identity is not None:
            yield from _unknown(directory, directory.identity.node_id, node.image)
        without = [each.name for each in directory.logs if not each.topic_id]
        if without:
            yield Finding(
                check="no-topic-id",
                severity=Severity.WARNING,
                subject=f"{directory.path}: {listed(without)}",
                problem="partition.metadata is missing or has no topic id: Apache Kafka sets such a"
                " log aside as stray",
                advice="Start wirekafka on it once, which writes the id from the metadata; or"
                " write `version: 0` and `topic_id: ID` into partition.metadata.",
            )
    yield from _twice(node)


def check_leftovers(node: NodeFiles) -> Iterator[Finding]:
    """Find directories that are no logs in service."""
    for directory in node.directories:
        for mark in ("stray", "future", "delete"):
            found = [each for each in directory.marked if each.mark == mark]
            is_usual = mark != "stray" and directory.is_in_use
            if found and not is_usual:
                size_bytes = sum(each.size_bytes for each in found)
                names = listed(each.name for each in found)
                yield _leftover(mark, f"{directory.path}: {names}", size_bytes)
        if directory.foreign:
            yield Finding(
                check="foreign-directory",
                severity=Severity.ERROR,
                subject=f"{directory.path}: {listed(directory.foreign)}",
                problem="it is no log: Apache Kafka does not start with it, wirekafka ignores it",
                advice="Move it away; where it is lost+found of a volume, let log.dirs name a"
                " directory below the volume's root.",
            )
        for name, reason in directory.bad_checkpoints.items():
            yield Finding(
                check="bad-checkpoint",
                severity=Severity.WARNING,
                subject=f"{directory.path}/{name}",
                problem=f"it cannot be read: {reason}",
                advice="Move the file away while the node is stopped: its offsets are found again"
                " from the logs, which takes a longer start.",
            )


def _unknown(directory: DirectoryFiles, node_id: int, image: MetadataImage) -> Iterator[Finding]:
    stray: list[str] = []
    other: list[str] = []
    for log in directory.logs:
        if _is_replica(log, node_id, image):
            if log.topic_id and image.topics[log.topic].id != log.topic_id:
                other.append(log.name)
        else:
            stray.append(log.name)
    if other:
        yield Finding(
            check="topic-id-mismatch",
            severity=Severity.ERROR,
            subject=f"{directory.path}: {listed(other)}",
            problem="partition.metadata has another topic id than the metadata log: it is of a"
            " topic that was deleted and created again under its name",
            advice="The next start sets the log aside and begins an empty one. If its records are"
            " wanted, `wirekafka export` the directory before.",
        )
    if stray:
        yield Finding(
            check="stray-log",
            severity=Severity.WARNING,
            subject=f"{directory.path}: {listed(stray)}",
            problem="the metadata log has no such topic, or no replica of it on this node",
            advice="The next start sets it aside as stray. If its records are wanted, `wirekafka"
            " export` them; otherwise delete it once the cluster is known to be whole.",
        )


def _is_replica(log: FoundLog, node_id: int, image: MetadataImage) -> bool:
    partition = image.partition(log.topic, log.partition)
    return partition is not None and node_id in partition.replicas


def _twice(node: NodeFiles) -> Iterator[Finding]:
    where: dict[str, list[str]] = {}
    for directory in node.directories:
        for log in directory.logs:
            where.setdefault(log.name, []).append(directory.path)
    for name, paths in where.items():
        if len(paths) > 1:
            yield Finding(
                check="log-twice",
                severity=Severity.ERROR,
                subject=name,
                problem=f"it is in several log directories: {listed(paths)}",
                advice="A node does not start with both: compare them by `wirekafka dump-log`, and"
                " move the older one away.",
            )


def _leftover(mark: str, subject: str, size_bytes: int) -> Finding:
    size = f"{size_bytes:,} bytes"
    if mark == "stray":
        return Finding(
            check="stray-directory",
            severity=Severity.WARNING,
            subject=subject,
            problem=f"set aside at a start because the cluster did not know it; it keeps {size}",
            advice="Delete it when its records are in the cluster, or are not wanted; `wirekafka"
            " dump-log` shows what is in it.",
        )
    if mark == "future":
        return Finding(
            check="interrupted-move",
            severity=Severity.NOTE,
            subject=subject,
            problem=f"a move between log directories was interrupted; it has {size}",
            advice="The next start continues or discards it: nothing has to be done.",
        )
    return Finding(
        check="deleted-leftover",
        severity=Severity.NOTE,
        subject=subject,
        problem=f"deleted, but its files are still there: {size}",
        advice="The next start removes it: nothing has to be done.",
    )
