"""Group ids are hashed to partitions as in Java."""

import pytest

from wirekafka.coordinator.java_hash import coordinator_partition, java_hash_code, java_map_order


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("Grüße", 69215351),
        ("😀", 1772899),  # two UTF-16 code units, as Java counts
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_hash_code_is_javas(text: str, code: int) -> None:
    assert java_hash_code(text) == code


def test_37_group_partition_is_abs_of_java_hash_code() -> None:
    assert coordinator_partition("hello", 50) == 99162322 % 50
    assert java_hash_code("flight-readers") < 0
    assert coordinator_partition("flight-readers", 50) == -java_hash_code("flight-readers") % 50
    # The smallest int has no positive counterpart: Kafka uses 0 instead.
    assert coordinator_partition("polygenelubricants", 50) == 0


def test_map_order_is_that_of_the_buckets_of_javas_hash_map() -> None:
    code = 99162322
    assert java_map_order("hello") == (code ^ code >> 16) & 15
