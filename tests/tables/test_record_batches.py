"""Record batches encoded from columns are the slow encoder's, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.tables.generated import records_of
from wirekafka.codec.batch import HEADER_BYTES, is_intact, read_header
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, decode_records, encode_batch
from wirekafka.tables.record_batches import encoded_batches, encoded_groups

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NO_LIMIT = 1 << 40


def columns_of(records: Sequence[Record], kind: pa.DataType) -> tuple[pa.Array, ...]:
    """Keys, values, times and headers; slices of longer columns, as a filter of rows leaves."""
    headers = [
        [{"key": name, "value": value} for name, value in record.headers] or None
        for record in records
    ]
    around = [{"key": "around", "value": b"x"}]
    return (
        pa.array([b"around", *(each.key for each in records), b"around"], kind)[1:-1],
        pa.array([b"around", *(each.value for each in records), b"around"], kind)[1:-1],
        pa.array([each.timestamp for each in records], pa.int64()),
        pa.array([around, *headers, around], _HEADERS)[1:-1],
    )


@pytest.mark.parametrize("seed", range(30))
def test_generated_columns_have_the_batches_of_the_slow_encoder(seed: int) -> None:
    random = Random(seed)
    records = records_of(random, 0, random.choice((1, 2, 40, 300)))
    kind = random.choice((pa.binary(), pa.large_binary(), pa.binary_view()))
    options = BatchOptions(
        compression=random.choice(tuple(Codec)), is_transactional=random.random() < 0.5
    )
    most_bytes = random.choice((1, 500, 20_000, _NO_LIMIT))
    found = list(
        encoded_batches(*columns_of(records, kind), most_bytes=most_bytes, options=options)
    )
    start = 0
    for batch in found:
        assert is_intact(batch)
        count = read_header(batch).count
        assert batch == encode_batch(records[start : start + count], options=options)
        assert len(batch) <= most_bytes or count == 1
        start += count
    assert start == len(records)
    if most_bytes == _NO_LIMIT:
        assert len(found) == 1


@pytest.mark.parametrize("seed", range(10))
def test_groups_of_records_have_batches_of_their_own(seed: int) -> None:
    random = Random(seed)
    records = records_of(random, 0, 200)
    starts = np.array(
        sorted({0, *random.choices(range(len(records)), k=random.choice((0, 5, 90)))})
    )
    columns = columns_of(records, pa.binary())
    most_bytes = random.choice((300, 20_000))
    reached = starts.tolist()
    for group, batch in encoded_groups(*columns, group_starts=starts, most_bytes=most_bytes):
        start, count = reached[group], read_header(batch).count
        assert batch == encode_batch(records[start : start + count])
        assert len(batch) <= most_bytes or count == 1
        reached[group] += count
    assert reached == [*starts[1:], len(records)]


@pytest.mark.parametrize("codec", Codec)
def test_batches_use_the_room_that_they_have_and_no_codec_exceeds_it_on_random_bytes(
    codec: Codec,
) -> None:
    random, most_bytes = Random(7), 300_000
    values = pa.array([random.randbytes(90) for _ in range(20_000)])
    found = encoded_batches(
        pa.nulls(len(values)),
        values,
        pa.array([1_700_000_000_000] * len(values)),
        most_bytes=most_bytes,
        options=BatchOptions(compression=codec),
    )
    *full, _ = map(len, found)
    assert len(full) > 3
    assert max(full) <= most_bytes
    assert min(full) > (0.9 if codec else 0.98) * most_bytes


def test_text_and_missing_columns_are_encoded() -> None:
    [batch] = encoded_batches(
        pa.nulls(2),
        pa.chunked_array([["größe"], [""]]),
        pa.chunked_array([[5], [3]]),
        pa.nulls(2, _HEADERS),
        most_bytes=1000,
    )
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (5, 5)
    assert decode_records(batch) == [Record(0, 5, None, "größe".encode()), Record(1, 3, None, b"")]


def test_no_records_make_no_batch() -> None:
    nothing = pa.array([], pa.binary())
    assert not list(encoded_batches(nothing, nothing, pa.array([], pa.int64()), most_bytes=1000))


def test_a_header_without_a_name_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], _HEADERS)
    one = pa.array([b"x"])
    with pytest.raises(ValueError, match="without a name"):
        list(encoded_batches(one, one, pa.array([1]), headers, most_bytes=HEADER_BYTES))
