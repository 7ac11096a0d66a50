"""The partitions of a column of keys are the slow partitioner's."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from wirekafka.client.partitioner import partition_of
from wirekafka.tables.key_partitions import partitions_of


@pytest.mark.parametrize("seed", range(20))
def test_generated_keys_have_the_partitions_of_the_hash(seed: int) -> None:
    random = Random(seed)
    longest = random.choice((0, 3, 8, 40, 700))
    keys = [
        random.randbytes(random.randint(0, longest)) for _ in range(random.choice((1, 20, 500)))
    ]
    count = random.choice((1, 3, 12, 1000))
    kind = random.choice((pa.binary(), pa.large_binary(), pa.binary_view()))
    # A slice of a longer column, as a filter of rows leaves it.
    column = pa.array([b"before", *keys, b"after"], kind)[1:-1]
    assert partitions_of(column, count).tolist() == [partition_of(key, count) for key in keys]


def test_text_is_placed_by_its_bytes() -> None:
    assert partitions_of(pa.array(["größe"]), 100).tolist() == [partition_of("größe".encode(), 100)]


def test_records_without_a_key_are_spread_evenly_among_all_partitions() -> None:
    keys = pa.chunked_array([[None, b"a", None], [None] * 8])
    found = partitions_of(keys, 5, first_without_key=3).tolist()
    assert found.pop(1) == partition_of(b"a", 5)
    assert found[:3] == [3, 4, 0]
    assert set(Counter(found).values()) == {2}


def test_no_keys_have_no_partitions() -> None:
    assert not len(partitions_of(pa.array([], pa.binary()), 5))
