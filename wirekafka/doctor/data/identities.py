"""Checks of log directories: whose they are, whether they belong together, and in what state."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.doctor.data.facts import DirectoryFiles, NodeFiles
from wirekafka.doctor.finding import Finding, Severity, listed
from wirekafka.log.checkpoints import uuid_text
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.compatibility import check_compatible


def check_identities(node: NodeFiles) -> Iterator[Finding]:
    """Find directories that are no log directories, or of several nodes."""
    for each in node.directories:
        if each.identity is None:
            yield _without_identity(each)
    known = [each for each in node.directories if each.identity is not None]
    owners = {(each.identity.cluster_id, each.identity.node_id) for each in known if each.identity}
    if len(owners) > 1:
        texts = [f"{path.path} of {_owner(path)}" for path in known]
        yield Finding(
            check="directories-of-several-nodes",
            severity=Severity.ERROR,
            subject="meta.properties",
            problem=f"the directories belong to several nodes: {listed(texts)}",
            advice="Give log.dirs only directories of one node; a node does not start on these.",
        )
    yield from _same_ids(known)


def check_state(node: NodeFiles) -> Iterator[Finding]:
    """Say whether the node runs, was killed, or was never started, and can be started."""
    in_use = [each.path for each in node.directories if each.is_in_use]
    if in_use:
        yield Finding(
            check="in-use",
            severity=Severity.NOTE,
            subject=listed(in_use),
            problem="a node runs on it: its files change while they are examined",
            advice="Examine the node itself too: `wirekafka doctor HOST:PORT`.",
        )
    known = [each for each in node.directories if each.identity is not None]
    if known and not any(each.has_metadata for each in node.directories):
        yield Finding(
            check="no-metadata-log",
            severity=Severity.WARNING,
            subject=listed(each.path for each in known),
            problem="formatted, but without a metadata log: no node has run on it, or the log is in"
            " another directory",
            advice="Name all directories of log.dirs, and that of metadata.log.dir. If the log was"
            " deleted, a node of a cluster fetches it again; a single node has lost its topics.",
        )
    killed = [each.path for each in known if _was_killed(each)]
    if killed:
        yield Finding(
            check="unclean-stop",
            severity=Severity.WARNING,
            subject=listed(killed),
            problem="the node was not stopped cleanly: its next start checks the newest segments"
            " and cuts what is not whole",
            advice="Start the node and let it recover; to see what would be cut, stop here and run"
            " `wirekafka repair` first. Stop nodes by SIGTERM and give them time.",
        )
    if node.problem:
        yield Finding(
            check="metadata-unreadable",
            severity=Severity.ERROR,
            subject="metadata log",
            problem=f"its records cannot be read: {node.problem}",
            advice="A newer version of Kafka may have written them: use that version. If the file"
            " is damaged, a node of a cluster fetches the log again once it is moved away.",
        )
    yield from _too_new(node)


def _too_new(node: NodeFiles) -> Iterator[Finding]:
    if node.image is None:
        return
    try:
        check_compatible(node.image)
    except UnusableDirectory as error:
        yield Finding(
            check="other-version",
            severity=Severity.WARNING,
            subject="metadata log",
            problem=f"wirekafka does not start here: {error}",
            advice="Use the version of Kafka that has used the directory last.",
        )


def _without_identity(directory: DirectoryFiles) -> Finding:
    is_kafka = bool(directory.logs) or directory.has_metadata
    what = "its owner is not known" if is_kafka else "no log directory of Kafka"
    return Finding(
        check="no-identity" if is_kafka else "not-a-log-directory",
        severity=Severity.ERROR,
        subject=directory.path,
        problem=f"{what}: {directory.problem}",
        advice="Write meta.properties again with cluster.id, node.id and version=1 as the other"
        " directories or nodes have them: without it no node starts here."
        if is_kafka
        else "Name a directory of log.dirs; a new one is made by `wirekafka serve --data` or"
        " `kafka-storage.sh format`.",
    )


def _same_ids(known: list[DirectoryFiles]) -> Iterator[Finding]:
    by_id: dict[bytes, list[str]] = {}
    for each in known:
        if each.identity is not None and each.identity.directory_id:
            by_id.setdefault(each.identity.directory_id, []).append(each.path)
    for directory_id, paths in by_id.items():
        if len(paths) > 1:
            yield Finding(
                check="same-directory-id",
                severity=Severity.ERROR,
                subject=listed(paths),
                problem=f"they have the same directory.id {uuid_text(directory_id)}: one is a copy",
                advice="Remove the copy from log.dirs, or delete the line directory.id of a"
                " directory that is really new, which then gets an id of its own.",
            )


def _was_killed(directory: DirectoryFiles) -> bool:
    has_run = bool(directory.logs) or directory.has_metadata
    return has_run and not directory.is_clean and not directory.is_in_use


def _owner(directory: DirectoryFiles) -> str:
    assert directory.identity is not None
    return f"node {directory.identity.node_id} of cluster {directory.identity.cluster_id}"
