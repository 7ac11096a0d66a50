"""Examines the log directories of one node, and on request every batch in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from types import MappingProxyType

from wirekafka.client.client import CliError
from wirekafka.doctor.data.facts import NodeFiles
from wirekafka.doctor.data.identities import check_identities, check_state
from wirekafka.doctor.data.logs import check_leftovers, check_logs
from wirekafka.doctor.data.node_files import read_node
from wirekafka.doctor.data.volumes import check_volumes
from wirekafka.doctor.finding import Finding, Severity, in_order
from wirekafka.log.checkpoints import LOCK
from wirekafka.log.directories import repair
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import ExaminedDisk, RealDisk, is_locked

CHECKS: Mapping[str, Callable[[NodeFiles], Iterator[Finding]]] = MappingProxyType(
    {
        "identities": check_identities,
        "the state of the node": check_state,
        "logs and topic ids": check_logs,
        "leftovers and checkpoints": check_leftovers,
        "space, owners and links": check_volumes,
    }
)
"""What is checked, and how."""

DEEP = "every batch"


def examine_data(paths: Sequence[str], *, deep: bool) -> Sequence[Finding]:
    """Examine log directories; `deep` reads all batches of a stopped node.

    Raises CliError for a directory that cannot be listed.
    """
    disk = ExaminedDisk()
    try:
        node = read_node(disk, paths)
    except OSError as error:
        raise CliError(f"{error.filename}: {error.strerror}") from None
    findings = [finding for check in CHECKS.values() for finding in check(node)]
    if deep:
        for path in paths:
            findings += _damages(disk, path)
    return in_order(findings)


def _damages(disk: RealDisk, path: str) -> Iterator[Finding]:
    try:
        damages = list(repair.examine(disk, path))
        if is_locked(f"{path}/{LOCK}"):
            raise UnusableDirectory("a node was started meanwhile")
        for damage in damages:
            yield Finding(
                check="torn-tail" if damage.is_torn_tail else "corrupt-batch",
                severity=Severity.WARNING if damage.is_torn_tail else Severity.ERROR,
                subject=f"{path}/{damage.log}",
                problem=f"{damage.reason} at byte {damage.position} of {damage.path}, at offset"
                f" {damage.end_offset}; {damage.readable_after} whole batches follow",
                advice=f"The next start cuts {damage.lost_bytes} bytes."
                if damage.is_torn_tail
                else "Where another replica is whole, move the log away and let the node copy it;"
                f" otherwise `wirekafka repair {quote(path)} --cut {quote(damage.log)}` gives up"
                f" {damage.lost_bytes} bytes.",
            )
    except (UnusableDirectory, OSError) as error:
        yield Finding(
            check="not-checked",
            severity=Severity.WARNING,
            subject=f"{path}: every batch",
            problem=f"not checked: {error}",
            advice="Stop the node, and examine its directory again.",
        )
