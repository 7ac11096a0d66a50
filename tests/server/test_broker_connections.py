"""How a broker connects to the other brokers in the metadata."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.manual_clock import ManualClock
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.image import BrokerImage, MetadataImage
from wirekafka.protocol.records.metadata import RegisterBrokerRecord
from wirekafka.server.net import SocketNet
from wirekafka.server.peers.broker_connections import BrokerConnections

_MODULES = "org.apache.kafka.common.security."
_USER = 'required username="u" password="p";'
_SASL = {
    "listeners": "INSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": f"{_MODULES}plain.PlainLoginModule {_USER}",
}
_SCRAM = {
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.inside.scram-sha-512.sasl.jaas.config": (
        f"{_MODULES}scram.ScramLoginModule {_USER}"
    ),
}


class Cluster:
    """One other broker, 7, and the connections of a broker with these options."""

    def __init__(self, **options: str) -> None:
        self.config = BrokerConfig.of(options)
        self.image = MetadataImage()
        self.move("first", 1)
        self.connections = BrokerConnections(
            self.image, lambda: self.config, SocketNet(), ManualClock()
        )

    def move(self, host: str, port: int) -> None:
        end_point = RegisterBrokerRecord.BrokerEndpoint(name="INSIDE", host=host, port=port)
        self.image.brokers[7] = BrokerImage(
            RegisterBrokerRecord(broker_id=7, end_points=[end_point], fenced=False)
        )


def test_each_connection_goes_to_the_address_that_the_broker_has_then() -> None:
    cluster = Cluster(**_SASL)
    assert str(cluster.connections.connect(7, "c").options) == "first:1"
    cluster.move("::2", 2)
    moved = cluster.connections.connect(7, "c").options
    assert (moved.address, moved.client_id) == (("::2", 2), "c")
    with pytest.raises(KafkaError, match="the address of broker 8 at INSIDE is unknown") as unknown:
        cluster.connections.connect(8, "c")
    assert unknown.value.error is Error.BROKER_NOT_AVAILABLE


def test_all_connections_share_their_security_which_stays_as_it_was() -> None:
    """As in Kafka: what clients change at run time does not decide how nodes log in."""
    cluster = Cluster(**_SASL)
    security = cluster.connections.connect(7, "c").options.security
    assert (security.logs_in, security.uses_tls, security.mechanism) == (True, False, "PLAIN")
    cluster.config = cluster.config.with_dynamic({}, _SCRAM)
    assert cluster.connections.connect(7, "d").options.security is security
    assert security.mechanism == "PLAIN"
    assert b"\0" in asyncio.run(security.new_login(0)).first()


def test_nothing_is_connected_until_the_security_can_be_used(tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    tls = {
        "listeners": "INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(store),
    }
    cluster = Cluster(**tls)
    with pytest.raises(KafkaError, match=r"ssl\.truststore\.location") as refused:
        cluster.connections.connect(7, "c")
    assert refused.value.error is Error.BROKER_NOT_AVAILABLE
    cluster.config = BrokerConfig.of({**tls, "ssl.truststore.location": ""})
    assert cluster.connections.connect(7, "c").options.security.uses_tls
