"""A broker does not start where starting would do harm."""

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.servable import require_servable


def test_a_lone_plaintext_node_is_served():
    require_servable(BrokerConfig.of())
    require_servable(BrokerConfig.of({
        "node.id": "7", "controller.quorum.voters": "7@localhost:9093",
        "listeners": "INSIDE://:1,CONTROLLER://:2", "inter.broker.listener.name": "INSIDE",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"}))


@pytest.mark.parametrize(("settings", "complaint"), [
    ({"listeners": "PLAINTEXT://:1,SSL://:2"}, "SSL is not there yet"),
    ({"listeners": "SASL_SSL://:2"}, "SASL_SSL is not there yet"),
    ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
     "permissions are not there yet"),
    ({"process.roles": "broker"}, "only broker,controller is there yet"),
    ({"controller.quorum.voters": "1@a:1,2@b:1"}, "a quorum of several nodes is not there yet"),
])
def test_security_and_clusters_that_are_not_there_are_refused_not_ignored(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        require_servable(BrokerConfig.of(settings))
