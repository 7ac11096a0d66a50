"""Configurations with which a broker refuses to start."""

import re

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.option import ConfigError

BROKER = {
    "process.roles": "broker",
    "node.id": "7",
    "controller.quorum.voters": "1@a:1,2@b:1",
    "listeners": "PLAINTEXT://:1",
}
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "7",
    "controller.quorum.voters": "7@a:2",
    "listeners": "CONTROLLER://:2",
    "controller.listener.names": "CONTROLLER",
}
MAPPED = {"listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}


def test_a_broker_of_a_cluster_is_served():
    refuse_unsupported(BrokerConfig.of(BROKER))
    bootstrap = {"controller.quorum.bootstrap.servers": "a:1", "controller.quorum.voters": ""}
    refuse_unsupported(BrokerConfig.of(BROKER | bootstrap))


def test_the_controller_of_a_cluster_is_served():
    refuse_unsupported(BrokerConfig.of(CONTROLLER))
    bootstrap = {"controller.quorum.bootstrap.servers": "a:2", "controller.quorum.voters": ""}
    refuse_unsupported(BrokerConfig.of(CONTROLLER | bootstrap))
    combined = {"process.roles": "broker,controller", "listeners": "CONTROLLER://:2,PLAINTEXT://:3"}
    refuse_unsupported(BrokerConfig.of(CONTROLLER | combined))


def test_a_broker_of_a_cluster_has_kafkas_defaults():
    assert BrokerConfig.of().offsets_topic_replication_factor == 1
    assert BrokerConfig.of(BROKER).offsets_topic_replication_factor == 3


def test_a_single_plaintext_node_is_served():
    refuse_unsupported(BrokerConfig.of())
    refuse_unsupported(
        BrokerConfig.of(
            {
                "node.id": "7",
                "controller.quorum.voters": "7@localhost:9093",
                "listeners": "INSIDE://:1,CONTROLLER://:2",
                "inter.broker.listener.name": "INSIDE",
                "listener.security.protocol.map": "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "principal.builder.class": (
                    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
                ),
            }
        )
    )


def test_only_the_first_of_several_listeners_of_controllers_is_used(caplog):
    names = {"controller.listener.names": "CONTROLLER,OTHER"}
    refuse_unsupported(BrokerConfig.of(BROKER | names))
    assert "only the first will be used since process.roles=broker" in caplog.text


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"principal.builder.class": "com.example.Builder"},
            "com.example.Builder for configuration principal.builder.class: Java classes cannot be",
        ),
        (
            {"listener.name.plaintext.principal.builder.class": "com.example.Builder"},
            "configuration listener.name.plaintext.principal.builder.class: Java classes cannot be",
        ),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "Java classes cannot be loaded"),
        ({"create.topic.policy.class.name": "com.example.Policy"}, "Java classes cannot be"),
        ({"alter.config.policy.class.name": "com.example.Policy"}, "Java classes cannot be"),
        ({"client.quota.callback.class": "com.example.Quotas"}, "Java classes cannot be loaded"),
        (
            {"replica.selector.class": "com.example.Selector"},
            "the only selectors here are Kafka's own",
        ),
        (
            {"authorizer.class.name": "com.example.Authorizer"},
            "the only authorizer here is org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        (
            {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "admin"},
            "format User:name",
        ),
        (
            {"process.roles": "controller"},
            "either controller.quorum.bootstrap.servers must contain the set of bootstrap",
        ),
        (
            CONTROLLER | {"listeners": "CONTROLLER://:2,PLAINTEXT://:3"},
            "The listeners config must only contain KRaft controller listeners from "
            "controller.listener.names when process.roles=controller",
        ),
        (
            CONTROLLER | {"node.id": "8"},
            "If process.roles contains the 'controller' role, the node id 8 must be included in "
            "the set of voters controller.quorum.voters=Set(7)",
        ),
        (
            CONTROLLER | {"controller.listener.names": "CONTROLLER,OTHER"},
            "must only contain values appearing in the 'listeners' configuration when running the "
            "KRaft controller role",
        ),
        (
            {"controller.quorum.bootstrap.servers": "a:1", "listeners": "PLAINTEXT://:1"},
            "must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        ),
        (
            {"process.roles": "broker"},
            "either controller.quorum.bootstrap.servers must contain the set of bootstrap",
        ),
        (
            {"process.roles": "broker", "controller.quorum.bootstrap.servers": "a"},
            "a is not HOST:PORT",
        ),
        (
            {"process.roles": "broker", "controller.quorum.voters": "1@a:1,2@b:1"},
            "the node id 1 must not be included in the set of voters",
        ),
        (BROKER | {"controller.listener.names": ""}, "must not be empty"),
        (
            BROKER | {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
            "must not contain a value appearing in the 'listeners' configuration",
        ),
        (
            BROKER | {"listeners": "SSL://:1"},
            "Controller listener with name CONTROLLER defined in controller.listener.names not "
            "found in listener.security.protocol.map",
        ),
        (
            BROKER | {"listeners": "INSIDE://:1", **MAPPED},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            "The valid options based on currently configured listeners are INSIDE",
        ),
        (
            BROKER | {"inter.broker.listener.name": "OUTSIDE", **MAPPED},
            "Listener with name OUTSIDE defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        ),
        (
            BROKER
            | {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should "
            "be set.",
        ),
        (
            BROKER
            | {
                "listeners": "INSIDE://:1",
                "inter.broker.listener.name": "INSIDE",
                "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            },
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms",
        ),
        (
            {"controller.quorum.voters": "1@a:1,2@b:1"},
            "must contain at least one value appearing in the 'listeners' configuration",
        ),
        ({"controller.quorum.voters": "1@a"}, "1@a is not ID@HOST:PORT"),
        (
            {"group.coordinator.rebalance.protocols": "consumer,streams"},
            "Disabling the 'classic' protocol is not supported",
        ),
        (
            {"max.connections.per.ip.overrides": "127.0.0.1:5,many"},
            "Error parsing configuration property 'max.connections.per.ip.overrides': many",
        ),
        ({"group.share.assignors": "simple,other"}, "Class cannot be found"),
        ({"group.share.assignors": "com.example.Assignor"}, "Class cannot be found"),
    ],
)
def test_unsupported_security_and_cluster_settings_are_refused_not_ignored(settings, complaint):
    with pytest.raises(ConfigError, match=re.escape(complaint)) as caught:
        refuse_unsupported(BrokerConfig.of(settings))
    assert "\n" not in str(caught.value)
