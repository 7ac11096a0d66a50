"""The warning before a run on a cluster that has topics."""

from __future__ import annotations

import typer

from wirekafka.cli.output import note
from wirekafka.client.client import CliError
from wirekafka.conformance.target import ClusterUnderTest

_MOST_NAMES = 10


def warn(target: ClusterUnderTest, *, asks: bool) -> None:
    """Say what a run does to a cluster with topics, and ask. Raises CliError for another answer.

    Nothing is said about an empty cluster.
    """
    if not target.others:
        return
    shown = sorted(target.others)[:_MOST_NAMES]
    rest = len(target.others) - len(shown)
    names = ", ".join([*shown, *([f"{rest} more"] if rest else [])])
    note(f"This cluster has topics: {names}")
    note(
        "All names of the run begin with "
        f"{target.prefix}, and what has such a name is removed at the end. Internal topics, "
        "producer ids and transactional ids stay until they expire. Malformed requests are sent."
    )
    if asks and not typer.confirm("Run it on this cluster?", err=True):
        raise CliError("not run")
