"""The ranges of addresses that the hosts of ACLs may be, as Kafka reads them."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from wirekafka.security.acl import parsed_range


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("192.0.2.0/33", "Value [33] not in range [0,32]"),
        ("192.0.256.0/24", "Value [256] not in range [0,255]"),
        ("192.0.2.0/024", "Could not parse [192.0.2.0/024]"),
        ("192.0.2.0/-1", "Could not parse [192.0.2.0/-1]"),
        ("192.0.2/24", "Could not parse [192.0.2/24]"),
        ("192.0.2.0/", "Could not parse [192.0.2.0/]"),
        ("/24", "Could not parse [/24]"),
        (
            "2001:db8::/129",
            "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
        ),
        ("2001:db8::/x", "Could not parse [2001:db8::/x] - invalid prefix length"),
    ],
)
def test_a_range_that_is_none_is_refused_in_the_words_of_kafka(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        parsed_range(text)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("text", "range"),
    [
        ("192.0.2.7/24", "192.0.2.0/24"),
        ("010.0.0.0/8", "10.0.0.0/8"),
        ("2001:db8::7/32", "2001:db8::/32"),
    ],
)
def test_a_range_has_the_addresses_with_the_same_first_bits(text: str, range: str) -> None:
    assert parsed_range(text) == ip_network(range)
