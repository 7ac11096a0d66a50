"""Checks of what the operating system says about log directories: space, owners, links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wirekafka.doctor.cluster.disks import space_finding
from wirekafka.doctor.data.facts import DirectoryFiles, NodeFiles
from wirekafka.doctor.finding import Finding, Severity, listed

_SNAPSHOT = ".checkpoint"


def check_volumes(node: NodeFiles) -> Iterator[Finding]:
    """Find volumes that are nearly full, files that the node cannot write, and links."""
    for directory in node.directories:
        found = space_finding(directory.path, directory.free_bytes, directory.total_bytes)
        if found is not None:
            yield found
        yield from _owners(directory)
        read_only = [
            _below(directory, each.path)
            for each in directory.access
            # Kafka makes snapshots of its metadata read-only.
            if not each.is_writable and not each.path.endswith(_SNAPSHOT)
        ]
        if read_only:
            yield Finding(
                check="read-only-file",
                severity=Severity.ERROR,
                subject=f"{directory.path}: {listed(read_only)}",
                problem="its owner may not write it: the log directory goes offline at the first"
                " write",
                advice="`chmod -R u+rwX` the directory.",
            )
        links = [_below(directory, each.path) for each in directory.access if each.is_link]
        if links:
            yield Finding(
                check="symbolic-link",
                severity=Severity.WARNING,
                subject=f"{directory.path}: {listed(links)}",
                problem="a symbolic link within a log directory: free space is measured elsewhere,"
                " and a deletion removes the link alone",
                advice="Give each volume a directory of its own in log.dirs, and move logs there"
                " with `kafka-reassign-partitions.sh`.",
            )


def _owners(directory: DirectoryFiles) -> Iterator[Finding]:
    owners = Counter(each.owner_id for each in directory.access)
    if len(owners) < 2:
        return
    [(usual, _)] = owners.most_common(1)
    others = [each for each in directory.access if each.owner_id != usual]
    names = listed(_below(directory, each.path) for each in others)
    yield Finding(
        check="other-owner",
        severity=Severity.ERROR,
        subject=f"{directory.path}: {names}",
        problem=f"of user {others[0].owner_id}, and the rest is of user {usual}: one of both cannot"
        " write all of it. The node was once started as another user",
        advice=f"`chown -R` the directory to the user that runs the node, probably {usual}.",
    )


def _below(directory: DirectoryFiles, path: str) -> str:
    return path.removeprefix(f"{directory.path}/")
