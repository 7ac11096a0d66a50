"""Runs the guide's recipes with a Java client in one JVM, with faults set by control port."""

from __future__ import annotations

from pathlib import Path

from compat_tests.java_tools import JavaTools

SOURCE = Path(__file__).with_name("java") / "Recipes.java"

EXPECTED = {
    "rebalance-during-commit": "RebalanceInProgressException [1] committed hits 1",
    "expelled-before-commit": "CommitFailedException [1] committed",
    "poison-record": "[1, put aside, 2] committed 3",
    "producer-fenced": "ProducerFencedException ProducerFencedException",
    "lag": "2",
    "exactly-once": "[A] 1 hits 1",
    "late-timestamps": "[on time, late]",
    "schema-change": "[6, 7]",
    "slow-broker": "TimeoutException",
    "dead-letters": "[x] committed hits 1",
    "lost-answer": "[1] hits 1",
    "too-large": "RecordTooLargeException [2] hits 1",
    "not-authorized": "TopicAuthorizationException [2] hits 1",
    "out-of-order": "ok [1, 2] hits 1",
    "refused-connections": "[1, 2]",
    "broker-restart": "[before, meanwhile]",
}
"""The expected output of each recipe."""


STREAMS_SOURCE = SOURCE.with_name("StreamsRecipes.java")

EXPECTED_OF_STREAMS = {
    "instance-expelled": "[1, 2] joined again",
    "tasks-held-back": "Assigning [0, 2] [1, 1]",
    "topology-inspected": (
        "[Stable, 0 reads [topology-inspected]] [topology-inspected-counts-changelog]"
    ),
}
"""The expected output of each recipe for Kafka Streams."""


def outcomes(
    bootstrap: str, control: str, java_tools: JavaTools, source: Path = SOURCE
) -> dict[str, str]:
    """Run all recipes; return the output of each by name."""
    output = java_tools.run(str(source), bootstrap, control)
    return dict(line.split("\t") for line in output.splitlines() if "\t" in line)
