"""Whether a stream's batch may be written, by the marker of earlier batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wirekafka.client.sink_marker import Marker
from wirekafka.spark.commit_rule import (
    BatchToCommit,
    CommitRefused,
    QueryFenced,
    Step,
    is_written,
    step_of,
)

MARKER = Marker("query", "run 1", 5, 10, 60, 1000, 3, 1_700_000_000_000, "host/1")
BATCH = BatchToCommit("query", "run 2", 6, run_at_begin="run 1", run_before="run 1")


def test_first_commit_of_a_run_takes_over_from_the_run_before() -> None:
    assert step_of(BATCH, MARKER, "id") is Step.TAKE_OVER


def test_first_commit_of_a_query_takes_over_from_nobody() -> None:
    batch = replace(BATCH, number=0, run_at_begin=None, run_before=None)
    assert step_of(batch, None, "id") is Step.TAKE_OVER


def test_later_commits_of_a_run_go_on() -> None:
    marker = replace(MARKER, run="run 2", batch=6)
    batch = replace(BATCH, number=7, run_at_begin="run 2")
    assert step_of(batch, marker, "id") is Step.GO_ON


def test_run_is_fenced_by_the_first_commit_of_a_newer_run() -> None:
    marker = replace(MARKER, run="run 3", batch=7)
    # The run has slept between its batches: also its last batch has begun after the newer run.
    for run_at_begin in ("run 2", "run 3"):
        batch = replace(BATCH, number=8, run_at_begin=run_at_begin)
        with pytest.raises(QueryFenced, match=r"another run has begun.*id: query query, run run 3"):
            step_of(batch, marker, "id")


def test_run_yields_to_a_run_that_began_during_its_first_batch() -> None:
    marker = replace(MARKER, run="run 3", batch=6)
    batch = replace(BATCH, run_at_begin="run 1", run_before="run 3")
    with pytest.raises(QueryFenced, match=r"while run run 2 .* computed its first batch"):
        step_of(batch, marker, "id")


def test_run_whose_marker_is_gone_is_fenced() -> None:
    with pytest.raises(QueryFenced, match="marker of earlier batches is gone"):
        step_of(replace(BATCH, run_at_begin="run 2"), None, "id")


@pytest.mark.parametrize("number", [6, 7, 20])
def test_newer_batches_are_written(number: int) -> None:
    assert not is_written(replace(BATCH, number=number), MARKER, replaces_marker=False)


@pytest.mark.parametrize("replaces", [False, True])
def test_batch_of_the_marker_is_written_already(replaces: bool) -> None:
    assert is_written(replace(BATCH, number=5), MARKER, replaces_marker=replaces)


def test_first_batch_without_a_marker_is_written() -> None:
    assert not is_written(replace(BATCH, number=0), None, replaces_marker=False)


REFUSED = [
    (replace(BATCH, number=4), MARKER, "checkpoint of query query is older"),
    (replace(BATCH, query="other"), MARKER, "belongs to another query or checkpoint"),
    (replace(BATCH, query="other", number=5), MARKER, "belongs to another query or checkpoint"),
    (BATCH, None, "no marker of the batches before"),
]


@pytest.mark.parametrize(("batch", "marker", "reason"), REFUSED)
def test_batches_that_contradict_the_marker_are_refused_unless_they_replace_it(
    batch: BatchToCommit, marker: Marker | None, reason: str
) -> None:
    with pytest.raises(CommitRefused, match=reason) as refused:
        is_written(batch, marker, replaces_marker=False)
    assert "replaceMarker=true" in str(refused.value)
    assert not is_written(batch, marker, replaces_marker=True)
