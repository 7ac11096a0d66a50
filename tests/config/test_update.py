"""Changes of broker, group and client metrics configs that are refused, as by Apache Kafka."""

import re

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.dynamic import validate_dynamic
from wirekafka.config.checks.update import (
    is_list,
    validate_broker,
    validate_client_metrics,
    validate_group,
)
from wirekafka.errors import Error, KafkaError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"broker.id": "5"}, "Cannot update these configs dynamically: [broker.id]"),
        (
            {"listeners": "PLAINTEXT://:1"},
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listeners]",
        ),
        (
            {"ssl.keystore.type": "JKS"},
            "These security configs can be dynamically updated only per-listener "
            "using the listener "
            "prefix: [ssl.keystore.type]",
        ),
        (
            {"sasl.kerberos.service.name": "kafka"},
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[sasl.kerberos.service.name]",
        ),
        (
            {"num.io.threads": "abc"},
            "Invalid value abc for configuration num.io.threads: Not a number of type INT",
        ),
    ],
)
def test_cluster_wide_values_are_checked(values, message):
    with pytest.raises(KafkaError) as error:
        validate_broker(values, per_broker=False)
    assert (error.value.error, error.value.message) == (Error.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "listener.name.inside.ssl.client.auth",
            "bogus",
            "Invalid value bogus for configuration ssl.client.auth: "
            "String must be one of: required, requested, none",
        ),
        (
            "listener.name.inside.max.connections",
            "-5",
            "Invalid value -5 for configuration max.connections: Value must be at least 0",
        ),
        ("listener.name.inside.ssl.client.auth", "required", None),
        ("listener.name.inside.no.such.option", "x", None),
        # Kafka finds out later that it cannot read the options of a mechanism.
        ("listener.name.inside.plain.connections.max.reauth.ms", "x", None),
    ],
)
def test_values_of_a_listener_are_checked(name, value, message):
    if message is None:
        validate_broker({name: value}, per_broker=True)
        return
    with pytest.raises(KafkaError) as error:
        validate_broker({name: value}, per_broker=True)
    assert (error.value.error, error.value.message) == (Error.INVALID_REQUEST, message)


def test_only_limits_of_a_listener_can_be_set_for_all_brokers():
    for option in ("max.connections", "max.connection.creation.rate", "num.network.threads"):
        validate_broker({f"listener.name.inside.{option}": "5"}, per_broker=False)
    for option in ("ssl.keystore.location", "no.such.option"):
        name = f"listener.name.inside.{option}"
        with pytest.raises(KafkaError) as error:
            validate_broker({name: "5"}, per_broker=False)
        assert error.value.message == (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{name}]"
        )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("listener.name.plaintext.max.connections", "0", "Invalid max.connections 0"),
        ("max.connection.creation.rate", "0", "Invalid max.connection.creation.rate 0"),
        (
            "listener.name.plaintext.num.network.threads",
            "40",
            "Dynamic thread count update validation failed for num.network.threads=40, "
            "value should not be greater than double the current value 3",
        ),
        ("listener.name.elsewhere.max.connections", "0", None),
    ],
)
def test_limits_of_a_listener_are_checked_against_the_present_ones(name, value, reason):
    if reason is None:
        validate_altered({name: value})
        return
    with pytest.raises(KafkaError) as error:
        validate_altered({name: value})
    assert error.value.message == (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for "
        "configuration Invalid dynamic configuration"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"log.retention.ms": "0"},
            "requirement failed: log.retention.ms must be unlimited (-1) or, "
            "greater than or equal to 1",
        ),
        ({"log.roll.jitter.ms": "-1"}, "must be greater than or equal to 0"),
        ({"log.cleaner.threads": "0"}, "/ by zero"),
        ({"log.cleaner.dedupe.buffer.size": "1"}, "must be at least 1MB per cleaner thread."),
        ({"cordoned.log.dirs": "/elsewhere"}, "Missing entries : /elsewhere"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        (
            {"group.consumer.assignment.interval.ms": "20000"},
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        ({"metric.reporters": "com.example.Reporter"}, "of Set(metric.reporters) failed"),
    ],
)
def test_a_running_broker_is_checked_as_at_the_start(values, message):
    with pytest.raises(KafkaError, match=re.escape(message)) as error:
        validate_altered(values)
    assert error.value.error is Error.INVALID_REQUEST


def validate_altered(values):
    config = BrokerConfig.of()
    validate_dynamic(config, values, config.with_dynamic({}, values))


def test_one_broker_may_have_listeners_and_unknown_keys_of_its_own():
    validate_broker({"listeners": "PLAINTEXT://:1", "no.such.key": "1"}, per_broker=True)


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ],
)
def test_rates_of_replication_are_numbers(name, per_broker):
    validate_broker({name: "0"}, per_broker=per_broker)
    validate_broker({name: " 77 "}, per_broker=per_broker)
    for value, reason in (
        ("abc", "Not a number of type LONG"),
        ("1.5", "Not a number of type LONG"),
        ("-1", "Value must be at least 0"),
    ):
        with pytest.raises(KafkaError) as error:
            validate_broker({name: value}, per_broker=per_broker)
        message = f"Invalid value {value} for configuration {name}: {reason}"
        assert (error.value.error, error.value.message) == (Error.INVALID_REQUEST, message)


def test_a_custom_class_is_not_found():
    with pytest.raises(KafkaError) as error:
        validate_broker({"principal.builder.class": "x"}, per_broker=True)
    assert error.value.message == (
        "Invalid value x for configuration principal.builder.class: Class x could not be found."
    )


@pytest.mark.parametrize("name", ["sasl.kerberos.min.time.before.relogin", "ssl.protocol"])
def test_one_broker_may_have_security_settings_that_no_listener_reloads(name):
    validate_broker({name: "58000"}, per_broker=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nosuch": "5"}, "Unknown group config name: nosuch"),
        (
            {"consumer.session.timeout.ms": "5"},
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            {"consumer.heartbeat.interval.ms": "60000"},
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
        (
            {"streams.num.standby.replicas": "5"},
            "streams.num.standby.replicas must be less than or equal to 2",
        ),
        (
            {"streams.task.offset.interval.ms": "5"},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        (
            {"streams.assignor.name": "sticker"},
            "streams.assignor.name 'sticker' is not a registered task assignor. Registered "
            "assignors are: [sticky].",
        ),
        (
            {"streams.rack.aware.assignment.tags": "zone,zone"},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            {"streams.rack.aware.assignment.tags": "zone,,rack"},
            "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
        ),
        (
            {"errors.deadletterqueue.topic.name": "__dlq"},
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
    ],
)
def test_group_values_lie_between_the_brokers_bounds(values, message):
    with pytest.raises(KafkaError) as error:
        validate_group(BrokerConfig.of(), values)
    assert (error.value.error, error.value.message) == (Error.INVALID_CONFIG, message)


def test_a_share_group_starts_where_an_iso_duration_says():
    validate_group(BrokerConfig.of(), {"share.auto.offset.reset": "by_duration:P1DT2H"})
    with pytest.raises(KafkaError):
        validate_group(BrokerConfig.of(), {"share.auto.offset.reset": "by_duration:P"})


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"interval.ms": "5"}, Error.INVALID_REQUEST),
        ({"foo": "5"}, Error.INVALID_REQUEST),
        ({"match": "client_id=["}, Error.INVALID_CONFIG),
        ({"match": "foo=bar"}, Error.INVALID_CONFIG),
        ({"interval.ms": "abc"}, Error.INVALID_CONFIG),
    ],
)
def test_client_metrics_are_checked(values, code):
    with pytest.raises(KafkaError) as error:
        validate_client_metrics(values)
    assert error.value.error is code


def test_only_lists_can_be_appended_to():
    assert is_list(2, "cleanup.policy")
    assert not is_list(2, "retention.ms")
    assert not is_list(16, "metrics")
    assert is_list(4, "sasl.enabled.mechanisms")
