"""Dynamic settings in the metadata log that no broker has checked, as controllers store them."""

from __future__ import annotations

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints.listeners import listeners


@pytest.mark.parametrize(
    ("cluster", "own"),
    [
        ({"listener.security.protocol.map": "${file:/secrets:key}"}, {}),
        ({"listeners": "nonsense"}, {}),
        ({"advertised.listeners": "nonsense"}, {"advertised.listeners": "nonsense"}),
        ({"listener.name.plaintext.ssl.keystore.location": "/key"}, {"node.id": "7"}),
        ({"log.dirs": "/other"}, {"process.roles": "broker"}),
    ],
)
def test_settings_that_cannot_change_at_run_time_are_ignored(
    cluster: dict[str, str], own: dict[str, str]
) -> None:
    config = BrokerConfig.of({"log.dirs": "/data"})
    found = config.with_dynamic(cluster, own)
    assert found.sources.cluster == found.sources.broker == {}
    assert listeners(found) == listeners(config)


def test_settings_of_one_broker_and_of_all_apply_at_their_levels() -> None:
    found = BrokerConfig.of({}).with_dynamic(
        {"max.connections": "5", "listener.name.plaintext.max.connections": "4"},
        {"listener.name.plaintext.ssl.keystore.location": "/key", "a.plugin": "x"},
    )
    assert found.max_connections == 5
    assert found.for_listener("PLAINTEXT").max_connections == 4
    assert found.for_listener("PLAINTEXT").ssl_keystore_location == "/key"
