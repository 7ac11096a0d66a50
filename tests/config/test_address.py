"""Addresses of nodes as they are configured and shown."""

import pytest

from wirekafka.config.address import Address, java_text
from wirekafka.config.endpoints.host_limits import connections_of_hosts


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


@pytest.mark.parametrize(
    ("address", "scope", "text"),
    [
        ("127.0.0.1", 0, "127.0.0.1"),
        ("::1", 0, "0:0:0:0:0:0:0:1"),
        ("::", 0, "0:0:0:0:0:0:0:0"),
        ("2001:db8::ff:0:1", 0, "2001:db8:0:0:0:ff:0:1"),
        ("2001:DB8:0:0:1::", 0, "2001:db8:0:0:1:0:0:0"),
        ("::ffff:1.2.3.4", 0, "1.2.3.4"),
        ("::1.2.3.4", 0, "0:0:0:0:0:0:102:304"),
        ("fe80::fc:ff:fe00:1%eth0", 4, "fe80:0:0:0:fc:ff:fe00:1%4"),
    ],
)
def test_hosts_are_written_as_by_java(address, scope, text):
    """The texts are those of Java's InetAddress, the last one of an accepted connection."""
    assert java_text(address, scope) == text


def test_limits_of_hosts_are_found_for_any_spelling_of_an_address():
    assert connections_of_hosts("::1:5,10.0.0.1:6,somewhere:7") == {
        "0:0:0:0:0:0:0:1": 5,
        "10.0.0.1": 6,
        "somewhere": 7,
    }
