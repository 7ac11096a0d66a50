"""Settings of a start that wirekafka accepts and Apache Kafka refuses, or the other way around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_CLASSES = (
    "Java classes cannot be loaded. Apache Kafka fails later in its start, unless it finds the "
    "class."
)


class Difference(NamedTuple):
    """An example of settings that are judged differently, on purpose."""

    settings: Mapping[str, str]
    """The settings, added to the settings of a complete node; an empty value is not set at all."""
    is_accepted: bool
    """Whether wirekafka accepts the settings; Apache Kafka does the opposite."""
    reason: str


_SECURITY = "Java's security is not used, so that this could only be ignored."


def _of_class(option: str) -> Difference:
    return Difference({option: "com.example.Unknown"}, False, _CLASSES)


DIFFERENCES = (
    Difference(
        {"controller.quorum.bootstrap.servers": ""},
        True,
        "The only controller of a cluster needs neither voters nor bootstrap servers.",
    ),
    Difference(
        {
            "controller.quorum.bootstrap.servers": "",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://:9092",
        },
        True,
        "The only controller of a cluster needs no listener for controllers.",
    ),
    Difference(
        {
            "controller.quorum.bootstrap.servers": "",
            "listeners": "INSIDE://:9092",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
        True,
        "A single node connects only to itself: any of its listeners will do.",
    ),
    Difference(
        {"controller.listener.names": ""},
        True,
        "`process.roles`, `node.id` and `controller.listener.names` have defaults.",
    ),
    Difference(
        {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093"},
        True,
        "Listeners at 0.0.0.0 advertise the name of the host, as those without a host do.",
    ),
    Difference(
        {"advertised.listeners": "PLAINTEXT://[::]:9092"},
        False,
        "No client can connect to `[::]`, just as to 0.0.0.0, which Apache Kafka refuses too.",
    ),
    Difference(
        {"listeners": "PLAINTEXT://:99999,CONTROLLER://:9093"},
        False,
        "There is no such port. Apache Kafka fails later in its start.",
    ),
    Difference(
        {"controller.quorum.voters": "1@a:9093,-1@b:9093"}, False, "There is no such node id."
    ),
    Difference(
        {"config.providers": "vault"},
        False,
        "A provider without a class replaces nothing: its references would be taken as values.",
    ),
    Difference({"security.providers": "com.example.Provider"}, False, _SECURITY),
    Difference({"ssl.provider": "BCJSSE"}, False, _SECURITY),
    Difference({"ssl.keymanager.algorithm": "IbmX509"}, False, _SECURITY),
    Difference({"ssl.trustmanager.algorithm": "IbmPKIX"}, False, _SECURITY),
    Difference({"ssl.endpoint.identification.algorithm": "LDAPS"}, False, _SECURITY),
    _of_class("authorizer.class.name"),
    _of_class("group.share.dlq.manager.class.name"),
    _of_class("group.share.persister.class.name"),
    _of_class("kafka.metrics.reporters"),
    _of_class("metric.reporters"),
    _of_class("replica.selector.class"),
)
"""The differences; all other settings are accepted and refused as by Apache Kafka 4.4.

`compat_tests/test_start_settings.py` compares them.
"""
