"""Where broker settings come from and which source wins."""

from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import INT_MAX, ConfigError
from wirekafka.config.options import BROKER
from wirekafka.config.sources import option_name

KRAFT_FILE = """
# A combined node, as Kafka ships it.
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/one, /tmp/two
log.segment.bytes=2097152
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(KRAFT_FILE)
    return path


def test_without_any_source_a_single_broker_gets_its_settings():
    config = BrokerConfig.of()
    assert config.node_id == 1
    assert config.process_roles == ("broker", "controller")
    assert config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_replication_factor == 1
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.group_max_size == INT_MAX


def test_a_file_restores_kafkas_own_defaults(file):
    config = BrokerConfig.of(file=file)
    assert config.offsets_topic_replication_factor == 3
    assert config.group_initial_rebalance_delay_ms == 3000


def test_a_real_kraft_file_is_read(file):
    config = BrokerConfig.of(file=file)
    assert (config.node_id, config.broker_id) == (7, 7)
    assert config.controller_quorum_voters == ("7@localhost:9093",)
    assert config.data_directories == ("/tmp/one", "/tmp/two")
    assert config.unknown == []


def test_environment_overrides_file_and_command_line_overrides_environment(file):
    environment = {"KAFKA_LOG_SEGMENT_BYTES": "3145728", "KAFKA_NUM_PARTITIONS": "4"}
    config = BrokerConfig.of({"num.partitions": "5"}, environment, file)
    assert config.log_segment_bytes == 3145728
    assert config.num_partitions == 5


@pytest.mark.parametrize(
    ("variable", "name"),
    [("KAFKA_LOG_SEGMENT_BYTES", "log.segment.bytes"), ("KAFKA_A__B___C_D", "a_b-c.d")],
)
def test_variables_are_named_as_in_apaches_image(variable, name):
    assert option_name(variable) == name


def test_variables_of_start_scripts_are_no_settings():
    config = BrokerConfig.of(environment={"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_FOO_BAR": "1"})
    assert config.unknown == [("foo.bar", "environment variable KAFKA_FOO_BAR")]


def test_an_unknown_key_is_reported_with_its_source_not_refused(file):
    file.write_text(KRAFT_FILE + "no.such.key=1\nlistener.name.plaintext.ssl.protocol=TLS\n")
    assert BrokerConfig.of(file=file).unknown == [("no.such.key", str(file))]


def test_an_option_of_a_listener_is_known_but_a_misspelt_one_is_not():
    known = {
        "listener.name.inside.ssl.client.auth": "required",
        "listener.name.inside.plain.sasl.jaas.config": "x;",
    }
    unknown = {
        "listener.name.inside.ssl.client.oath": "required",
        # Kafka looks for listeners and mechanisms in lower case.
        "listener.name.INSIDE.ssl.client.auth": "required",
        "listener.name.inside.PLAIN.sasl.jaas.config": "x;",
        "listener.name.inside": "x",
    }
    config = BrokerConfig.of({**known, **unknown})
    assert {name for name, _ in config.unknown} == set(unknown)


def test_options_of_a_listener_override_the_common_ones():
    config = BrokerConfig.of(
        {
            "ssl.client.auth": "requested",
            "ssl.protocol": "TLSv1.2",
            "listener.name.inside.ssl.client.auth": "required",
        }
    )
    assert config.for_listener("INSIDE").ssl_client_auth == "required"
    assert config.for_listener("Inside").ssl_protocol == "TLSv1.2"
    assert config.for_listener("OUTSIDE").ssl_client_auth == "requested"
    assert config.ssl_client_auth == "requested"
    assert config.for_listener("inside") is config.for_listener("INSIDE")


def test_options_of_a_mechanism_override_those_of_its_listener():
    config = BrokerConfig.of(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.inside.connections.max.reauth.ms": "2",
            "listener.name.inside.scram-sha-256.connections.max.reauth.ms": "3",
        }
    )
    assert config.for_listener("INSIDE", "SCRAM-SHA-256").connections_max_reauth_ms == 3
    assert config.for_listener("INSIDE", "PLAIN").connections_max_reauth_ms == 2
    assert config.for_listener("OUTSIDE", "PLAIN").connections_max_reauth_ms == 1


def test_an_option_of_a_listener_overrides_a_dynamic_common_one():
    config = BrokerConfig.of({"listener.name.inside.ssl.client.auth": "required"})
    config = config.with_dynamic({"ssl.client.auth": "none"}, {"ssl.client.auth": "requested"})
    assert config.for_listener("INSIDE").ssl_client_auth == "required"
    assert config.for_listener("OUTSIDE").ssl_client_auth == "requested"


def test_options_of_a_listener_can_be_dynamic():
    name = "listener.name.inside.ssl.client.auth"
    config = BrokerConfig.of({name: "none"})
    assert config.with_dynamic({}, {name: "required"}).for_listener("inside").ssl_client_auth == (
        "required"
    )
    unreadable = config.with_dynamic({}, {name: "perhaps"})
    assert unreadable.for_listener("inside").ssl_client_auth == "none"


def test_a_bad_value_of_a_listener_names_it():
    config = BrokerConfig.of({"listener.name.inside.ssl.client.auth": "perhaps"})
    with pytest.raises(ConfigError) as error:
        config.for_listener("INSIDE")
    assert str(error.value) == (
        "Invalid value perhaps for configuration listener.name.inside.ssl.client.auth: "
        "String must be one of: required, requested, none (from --set)"
    )


def test_a_bad_value_names_key_value_source_and_what_is_wrong(file):
    file.write_text(KRAFT_FILE + "num.partitions=many\n")
    with pytest.raises(ConfigError) as error:
        BrokerConfig.of(file=file)
    assert str(error.value) == (
        "Invalid value many for configuration num.partitions: "
        f"Not a number of type INT (from {file})"
    )


def test_a_missing_file_is_reported_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file or directory"):
        BrokerConfig.of(file=tmp_path / "nowhere")


def test_broker_id_alone_names_the_node():
    assert BrokerConfig.of({"broker.id": "9"}).node_id == 9


def test_dynamic_values_override_static_ones_and_the_brokers_those_of_the_cluster():
    config = BrokerConfig.of({"message.max.bytes": "1000"})
    assert config.with_dynamic({"message.max.bytes": "2000"}, {}).message_max_bytes == 2000
    both = config.with_dynamic({"message.max.bytes": "2000"}, {"message.max.bytes": "3000"})
    assert both.message_max_bytes == 3000
    assert both.with_dynamic({}, {}).message_max_bytes == 1000


def test_an_unreadable_dynamic_value_does_not_stop_the_broker():
    config = BrokerConfig.of({"message.max.bytes": "1000"})
    assert config.with_dynamic({"message.max.bytes": "huge"}, {}).message_max_bytes == 1000


def test_a_dynamic_retention_overrides_static_hours():
    config = BrokerConfig.of({"log.retention.hours": "1"})
    assert config.topic_defaults.retention_ms == 3_600_000
    assert config.with_dynamic({"log.retention.ms": "7"}, {}).topic_defaults.retention_ms == 7


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_given_decides_retention(settings, expected):
    assert BrokerConfig.of(settings).topic_defaults.retention_ms == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.segment.bytes", "1048575"),
        ("num.partitions", "0"),
        ("num.partitions", "2147483648"),
        ("num.partitions", "1_000"),
        ("num.partitions", "0x10"),
        ("num.partitions", ""),
        ("auto.create.topics.enable", "yes"),
        ("compression.type", "brotli"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleanup.policy", "delete,"),
        ("num.partitions", "9" * 5000),
        ("process.roles", "broker,zookeeper"),
    ],
)
def test_values_out_of_bounds_are_refused(name, text):
    with pytest.raises(ConfigError):
        BrokerConfig.of({name: text})


def test_a_password_is_never_shown():
    config = BrokerConfig.of({"ssl.keystore.password": "hunter2"})
    assert config.ssl_keystore_password == "hunter2"
    assert "hunter2" not in repr(config.ssl_keystore_password)


NEEDS_AN_ITEM = {
    "controller.listener.names": "any non-empty value",
    "group.consumer.assignors": "any non-empty value",
    "group.coordinator.rebalance.protocols": "[consumer, classic, share, streams]",
    "group.share.assignors": "any non-empty value",
    "group.streams.assignors": "any non-empty value",
    "listeners": "any non-empty value",
    "log.dir": "any non-empty value",
    "log.dirs": "any non-empty value",
    "process.roles": "[broker, controller]",
}
"""Lists that need an item, with what Kafka 4.4.0 says may be one."""
FREE_LISTS = [
    "advertised.listeners",
    "config.providers",
    "controller.listener.names",
    "cordoned.log.dirs",
    "early.start.listeners",
    "group.consumer.assignors",
    "group.share.assignors",
    "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags",
    "kafka.metrics.reporters",
    "listeners",
    "log.dir",
    "log.dirs",
    "metric.reporters",
    "sasl.enabled.mechanisms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.oauthbearer.expected.audience",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
]
"""Lists whose items may be anything but empty."""


@pytest.mark.parametrize("name", FREE_LISTS)
def test_a_list_has_no_empty_item(name):
    with pytest.raises(ConfigError) as error:
        BROKER[name].parse("a,,b")
    assert str(error.value) == f"Configuration '{name}' values must not be empty."


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize("name", NEEDS_AN_ITEM)
def test_some_lists_need_an_item(name, text):
    with pytest.raises(ConfigError) as error:
        BROKER[name].parse(text)
    valid = f"Valid values include: {NEEDS_AN_ITEM[name]}"
    assert str(error.value) == f"Configuration '{name}' must not be empty. {valid}"


@pytest.mark.parametrize(
    "name",
    [
        "log.cleanup.policy",
        "sasl.enabled.mechanisms",
        "controller.quorum.voters",
        "metric.reporters",
    ],
)
def test_other_lists_may_be_empty(name):
    assert BROKER[name].parse("") == ()
