"""What AlterConfigs refuses for brokers, groups and client metrics, as Apache Kafka does."""

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.update import (
    is_list,
    validate_broker,
    validate_client_metrics,
    validate_group,
)
from wirekafka.errors import Error, KafkaError


@pytest.mark.parametrize(("values", "message"), [
    ({"broker.id": "5"}, "Cannot update these configs dynamically: [broker.id]"),
    ({"listeners": "PLAINTEXT://:1"},
     "Cannot update these configs at default cluster level, broker id must be specified: "
     "[listeners]"),
    ({"ssl.keystore.type": "JKS"},
     "These security configs can be dynamically updated only per-listener using the listener "
     "prefix: [ssl.keystore.type]"),
    ({"sasl.kerberos.service.name": "kafka"},
     "Cannot update these configs at default cluster level, broker id must be specified: "
     "[sasl.kerberos.service.name]"),
    ({"num.io.threads": "abc"},
     "Invalid value abc for configuration num.io.threads: Not a number of type INT"),
    ({"log.retention.ms": "0"},
     "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
])
def test_cluster_wide_values_are_checked(values, message):
    with pytest.raises(KafkaError) as error:
        validate_broker(values, per_broker=False)
    assert (error.value.error, error.value.message) == (Error.INVALID_REQUEST, message)


def test_one_broker_may_have_listeners_and_unknown_keys_of_its_own():
    validate_broker({"listeners": "PLAINTEXT://:1", "no.such.key": "1"}, per_broker=True)


def test_a_class_of_somebody_else_is_not_found():
    with pytest.raises(KafkaError) as error:
        validate_broker({"principal.builder.class": "x"}, per_broker=True)
    assert error.value.message == (
        "Invalid value x for configuration principal.builder.class: Class x could not be found.")


@pytest.mark.parametrize("name", ["sasl.kerberos.min.time.before.relogin", "ssl.protocol"])
def test_one_broker_may_have_security_settings_that_no_listener_reloads(name):
    validate_broker({name: "58000"}, per_broker=True)


@pytest.mark.parametrize(("values", "message"), [
    ({"nosuch": "5"}, "Unknown group config name: nosuch"),
    ({"consumer.session.timeout.ms": "5"},
     "consumer.session.timeout.ms must be greater than or equal to "
     "group.consumer.min.session.timeout.ms"),
    ({"consumer.heartbeat.interval.ms": "60000"},
     "consumer.heartbeat.interval.ms must be less than or equal to "
     "group.consumer.max.heartbeat.interval.ms"),
    ({"streams.num.standby.replicas": "5"},
     "streams.num.standby.replicas must be less than or equal to "
     "group.streams.max.standby.replicas"),
])
def test_group_values_lie_between_the_brokers_bounds(values, message):
    with pytest.raises(KafkaError) as error:
        validate_group(BrokerConfig.of(), values)
    assert (error.value.error, error.value.message) == (Error.INVALID_CONFIG, message)


def test_a_share_group_starts_where_an_iso_duration_says():
    validate_group(BrokerConfig.of(), {"share.auto.offset.reset": "by_duration:P1DT2H"})
    with pytest.raises(KafkaError):
        validate_group(BrokerConfig.of(), {"share.auto.offset.reset": "by_duration:P"})


@pytest.mark.parametrize(("values", "code"), [
    ({"interval.ms": "5"}, Error.INVALID_REQUEST), ({"foo": "5"}, Error.INVALID_REQUEST),
    ({"match": "client_id=["}, Error.INVALID_CONFIG), ({"match": "foo=bar"}, Error.INVALID_CONFIG),
    ({"interval.ms": "abc"}, Error.INVALID_CONFIG),
])
def test_client_metrics_are_checked(values, code):
    with pytest.raises(KafkaError) as error:
        validate_client_metrics(values)
    assert error.value.error is code


def test_only_lists_can_be_appended_to():
    assert is_list(2, "cleanup.policy")
    assert not is_list(2, "retention.ms")
    assert is_list(4, "sasl.enabled.mechanisms")
