"""Named listeners as a KRaft server.properties gives them."""

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.listeners import ListenerEndpoint, listeners
from wirekafka.config.option import ConfigError


def read(**settings: str):
    return listeners(BrokerConfig.of({k.replace("_", "."): v for k, v in settings.items()}))


def test_by_default_one_plaintext_listener_on_9092():
    found = read()
    assert found.bound == (ListenerEndpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert found.advertised == found.bound
    assert found.inter_broker == "PLAINTEXT"


def test_the_controllers_listener_is_separate():
    found = read(listeners="PLAINTEXT://:9092,CONTROLLER://:9093")
    assert [listener.name for listener in found.bound] == ["PLAINTEXT"]
    assert [str(listener) for listener in found.controller] == ["CONTROLLER://:9093"]


def test_several_named_listeners_advertise_their_own_addresses():
    found = read(
        listeners="INSIDE://0.0.0.0:9092,OUTSIDE://0.0.0.0:9094",
        advertised_listeners="OUTSIDE://kafka.example.com:443,INSIDE://broker:9092",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    assert list(map(str, found.advertised)) == [
        "INSIDE://broker:9092",
        "OUTSIDE://kafka.example.com:443",
    ]
    assert found.inter_broker == "INSIDE"


def test_ipv6_hosts_are_bracketed():
    [bound] = read(listeners="PLAINTEXT://[::1]:9092").bound
    assert (bound.host, bound.port, str(bound)) == ("::1", 9092, "PLAINTEXT://[::1]:9092")


def test_ipv6_hosts_may_name_an_interface():
    [bound] = read(listeners="PLAINTEXT://[fe80::1%eth0]:9092").bound
    assert (bound.host, bound.port) == ("fe80::1%eth0", 9092)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "localhost:9092"}, "Unable to parse"),
        ({"listeners": "PLAINTEXT://localhost"}, "Unable to parse"),
        ({"listeners": "PLAINTEXT://localhost:99999"}, "Unable to parse"),
        ({"listeners": "INSIDE://:9092"}, "No security protocol defined for listener INSIDE"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "different port"),
        ({"listeners": "CONTROLLER://:1"}, "a broker needs a listener"),
        ({"advertised_listeners": "SSL://host:1"}, "listener SSL is not one of"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "no address that clients"),
        ({"inter_broker_listener_name": "SSL"}, "must be a listener name defined in advertised"),
        ({"listener_security_protocol_map": "PLAINTEXT:TELNET"}, "PROTOCOL one of"),
    ],
)
def test_contradictions_are_reported_in_one_line(settings, complaint):
    with pytest.raises(ConfigError, match=complaint) as error:
        read(**settings)
    assert "\n" not in str(error.value)
