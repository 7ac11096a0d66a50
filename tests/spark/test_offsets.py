"""Offsets of a query: as JSON, in limited steps, and in chunks."""

import random

from wirekafka.spark.offsets import OffsetSpan, chunk_size, chunks, from_json, limited, to_json


def test_offsets_are_json_as_spark_keeps_it_in_checkpoints() -> None:
    positions = {("b", 10): 7, ("a", 2): 5, ("a", 0): 12}
    assert list(to_json(positions).items()) == [("a", {"0": 12, "2": 5}), ("b", {"10": 7})]
    assert from_json(to_json(positions)) == positions


def test_a_step_within_the_limit_is_not_cut() -> None:
    start, end = {("a", 0): 0, ("a", 1): 5}, {("a", 0): 4, ("a", 1): 11}
    assert limited(start, end, 10) == end


def test_a_limit_is_shared_out_in_proportion() -> None:
    start = {("a", 0): 0, ("a", 1): 100, ("a", 2): 7}
    end = {("a", 0): 900, ("a", 1): 200, ("a", 2): 7}
    assert limited(start, end, 100) == {("a", 0): 90, ("a", 1): 110, ("a", 2): 7}


def test_a_small_partition_beside_a_large_one_advances() -> None:
    start, end = {("a", 0): 0, ("a", 1): 0}, {("a", 0): 1_000_000, ("a", 1): 1}
    assert limited(start, end, 10)["a", 1] == 1


def test_a_partition_whose_end_went_back_stays_there() -> None:
    start, end = {("a", 0): 50, ("a", 1): 0}, {("a", 0): 20, ("a", 1): 100}
    assert limited(start, end, 10) == {("a", 0): 20, ("a", 1): 10}


def test_limited_steps_reach_the_end() -> None:
    source = random.Random(5)
    for _ in range(50):
        end = {("a", n): source.randrange(200) for n in range(source.randrange(1, 6))}
        position = dict.fromkeys(end, 0)
        limit = source.randrange(1, 60)
        while position != end:
            following = limited(position, end, limit)
            advance = {each: following[each] - position[each] for each in end}
            assert all(position[each] <= following[each] <= end[each] for each in end)
            assert 0 < sum(advance.values()) <= max(limit, len(end)) + len(end)
            position = following


def test_chunks_cover_a_span() -> None:
    span = OffsetSpan("a", 0, 10, 35)
    assert [(each.start_offset, each.end_offset) for each in chunks(span, 10)] == [
        (10, 20),
        (20, 30),
        (30, 35),
    ]
    assert list(chunks(span, None)) == [span]
    assert list(chunks(OffsetSpan("a", 0, 5, 5), 10)) == []


def test_there_are_as_many_chunks_as_are_asked_for() -> None:
    spans = [OffsetSpan("a", 0, 0, 7), OffsetSpan("a", 1, 0, 3)]
    for least in range(1, 11):
        step = chunk_size(spans, at_least=least, at_most=None)
        assert sum(len(list(chunks(span, step))) for span in spans) >= least
    assert chunk_size(spans, at_least=None, at_most=4) == 4
    assert chunk_size(spans, at_least=None, at_most=None) is None
