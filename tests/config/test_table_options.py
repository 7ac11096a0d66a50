"""The options of topics that are Iceberg tables, and the brokers' settings for them."""

from __future__ import annotations

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.describe import describe_topic
from wirekafka.config.own import tables_url
from wirekafka.config.topic_config import TopicConfig, validate_topic_config
from wirekafka.errors import Error, KafkaError

_KINDS = "off, key_value, value_schema_id_prefix, value_schema_latest"
_SETTINGS = "is neither subject=NAME nor protobuf_name=NAME"
_SPEC = (
    "expected a list in parentheses that are balanced, such as (hour(redpanda.timestamp),"
    " bucket(16, region)), or () for no partitions"
)
_REFUSALS = [
    ("mode", "on", f"'on' is none of {_KINDS}"),
    ("mode", "KEY_VALUE", f"'KEY_VALUE' is none of {_KINDS}"),
    ("mode", "", f"'' is none of {_KINDS}"),
    ("mode", "key_value:subject=a", "key_value has no settings, but 'subject=a' follows"),
    ("mode", "value_schema_latest:", f"'' {_SETTINGS}"),
    ("mode", "value_schema_latest:subject=", f"'subject=' {_SETTINGS}"),
    ("mode", "value_schema_latest:topic=a", f"'topic=a' {_SETTINGS}"),
    ("mode", "value_schema_latest:subject=a,subject=b", "subject is set twice"),
    ("write", "replace", "String must be one of: append, upsert"),
    ("invalid.record.action", "keep", "String must be one of: dlq_table, drop"),
    ("partition.spec", "hour(redpanda.timestamp)", _SPEC),
    ("partition.spec", "(hour(redpanda.timestamp)", _SPEC),
    ("partition.spec", "(a), (b)", _SPEC),
    ("partition.spec", "(a))(", _SPEC),
    ("partition.spec", "", _SPEC),
    ("target.lag.ms", "-1", "Value must be at least 0"),
    ("hold", "maybe", "Expected value to be either true or false"),
    ("delete", "", "Expected value to be either true or false"),
]


@pytest.mark.parametrize(("option", "value", "reason"), _REFUSALS)
def test_a_value_that_no_table_can_have_is_refused(option: str, value: str, reason: str) -> None:
    name = f"wirekafka.table.{option}"
    with pytest.raises(KafkaError) as refused:
        validate_topic_config(name, value)
    assert refused.value.error is Error.INVALID_CONFIG
    assert str(refused.value).endswith(f"Invalid value {value} for configuration {name}: {reason}")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mode", "off"),
        ("mode", "value_schema_latest"),
        ("mode", "value_schema_latest:protobuf_name=a.B,subject=orders-value"),
        ("partition.spec", "()"),
        ("partition.spec", "(hour(redpanda.timestamp), bucket(16, `a b`))"),
        ("target.lag.ms", "0"),
    ],
)
def test_a_value_that_a_table_can_have_is_accepted(option: str, value: str) -> None:
    validate_topic_config(f"wirekafka.table.{option}", value)


def test_a_topic_is_no_table_unless_it_says_so() -> None:
    config = TopicConfig()
    assert not config.is_table and not config.waits_for_table
    assert not config.changed(wirekafka_table_hold=True).waits_for_table
    table = config.changed(wirekafka_table_mode="key_value")
    assert table.is_table and not table.waits_for_table
    assert table.changed(wirekafka_table_hold=True).waits_for_table


def test_options_of_tables_are_described_where_a_topic_sets_them() -> None:
    broker = BrokerConfig.of()
    plain = {entry.name for entry in describe_topic(broker, {})}
    [added] = [
        entry
        for entry in describe_topic(broker, {"wirekafka.table.mode": "key_value"})
        if entry.name not in plain
    ]
    assert (added.name, added.value, added.read_only) == (
        "wirekafka.table.mode",
        "key_value",
        False,
    )


def test_settings_of_tables_come_from_environment_and_file_and_are_known() -> None:
    config = BrokerConfig.of(
        {"wirekafka.tables.catalog.s3.endpoint": "http://127.0.0.1:9000"},
        {"KAFKA_WIREKAFKA_TABLES_URL": "s3://bucket/prefix"},
    )
    assert tables_url(config.sources) == "s3://bucket/prefix"
    assert config.unknown == []
    assert tables_url(BrokerConfig.of({"wirekafka.tables.url": " "}).sources) is None
