"""Addresses of nodes as they are configured and shown."""

import pytest

from wirekafka.config.address import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        (" 127.0.0.1:0 ", Address("127.0.0.1", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        ("[fe80::1%eth0]:9092", Address("fe80::1%eth0", 9092)),
    ],
)
def test_an_address_is_read_and_written_alike(text, address):
    assert Address.parse(text) == address
    assert str(address) == text.strip()


def test_an_ipv6_address_without_brackets_ends_at_the_last_colon():
    assert Address.parse("::1:9092") == Address("::1", 9092)


@pytest.mark.parametrize(
    "text",
    ["", "localhost", ":9092", "[]:9092", "a b:1", "host:65536", "host:x", "host:٣", "[::1]"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        Address.parse(text)
