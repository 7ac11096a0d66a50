"""Whether a batch may be written: by the marker in Kafka, and by what the batch's run saw before.

Spark makes no call to a sink when a query starts. A run begins, for Kafka, with its first commit:
it fences the producer of the run before. Every later commit requires that the marker is the run's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wirekafka.client.sink_marker import Marker


class CommitRefused(Exception):
    """A batch that must not be written, and why, in words for the user."""


class QueryFenced(CommitRefused):
    """A batch of a run after which another run has begun."""


class Step(Enum):
    """What a commit has to do."""

    GO_ON = "go on with the run's producer"
    TAKE_OVER = "fence earlier runs, as this is the run's first commit"


@dataclass(frozen=True)
class BatchToCommit:
    """A batch that is to be committed, and what its run saw of the marker before."""

    query: str
    run: str
    number: int
    run_at_begin: str | None
    """The run of the marker when the batch began; None if there was no marker."""
    run_before: str | None
    """The run of the marker before the run's first commit."""


def step_of(batch: BatchToCommit, marker: Marker | None, transactional_id: str) -> Step:
    """Whether this is the first commit of the run. Raises QueryFenced."""
    run = marker.run if marker else None
    if run == batch.run:
        return Step.GO_ON
    if run == batch.run_before == batch.run_at_begin:
        return Step.TAKE_OVER
    other = _described(marker) if marker else "the marker of earlier batches is gone"
    if run != batch.run_before:
        raise QueryFenced(
            f"another run has begun to write with the transactional.id {transactional_id}: {other}."
            f" Run {batch.run} of query {batch.query} is fenced; none of its batch {batch.number}"
            " is written"
        )
    raise QueryFenced(
        f"another run has begun to write with the transactional.id {transactional_id} while run"
        f" {batch.run} of query {batch.query} computed its first batch: {other}. None of batch"
        f" {batch.number} is written; start the query again if it is to replace the other run"
    )


def is_written(batch: BatchToCommit, marker: Marker | None, *, replaces_marker: bool) -> bool:
    """Whether the batch is already in Kafka. Raises CommitRefused if it contradicts the marker."""
    if marker is not None and marker.query == batch.query:
        if marker.batch == batch.number:
            return True
        if marker.batch < batch.number:
            return False
    if (marker is None and batch.number == 0) or replaces_marker:
        return False
    raise CommitRefused(f"{_contradiction(batch, marker)}; {_ADVICE}")


_ADVICE = "replaceMarker=true writes the batch nevertheless. Nothing of it is written now"


def _contradiction(batch: BatchToCommit, marker: Marker | None) -> str:
    if marker is None:
        return (
            f"query {batch.query} has come to batch {batch.number}, but Kafka has no marker of the"
            " batches before: they went elsewhere, the transactional.id is new, or the marker has"
            " expired (offsets.retention.minutes); whether this batch was written cannot be known"
        )
    if marker.query != batch.query:
        return (
            f"the transactional.id belongs to another query or checkpoint: {_described(marker)},"
            f" and this is query {batch.query} with batch {batch.number}; give each query its own"
            " transactional.id"
        )
    return (
        f"the checkpoint of query {batch.query} is older than what Kafka has: it goes on with batch"
        f" {batch.number}, but {_described(marker)}"
    )


def _described(marker: Marker) -> str:
    return f"query {marker.query}, run {marker.run}, has written batch {marker.batch}"
