"""The effective configuration of a topic, and refused values."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wirekafka
from wirekafka.config.broker_config import BrokerConfig, TopicConfig, validate_topic_config
from wirekafka.config.checks.update import validate_topic
from wirekafka.errors import Error, KafkaError

# Kafka 4.4.0's own words, taken from LogConfig.validate.
REFUSALS = """
retention.ms=abc|Invalid value abc for configuration retention.ms: Not a number of type LONG
retention.ms=-2|Invalid value -2 for configuration retention.ms: Value must be at least -1
retention.ms=|Invalid value  for configuration retention.ms: Not a number of type LONG
segment.bytes=5|Invalid value 5 for configuration segment.bytes: Value must be at least 1048576
segment.bytes=1e6|Invalid value 1e6 for configuration segment.bytes: Not a number of type INT
segment.bytes=99999999999|Invalid value 99999999999 for configuration segment.bytes: Not a number \
of type INT
preallocate=yes|Invalid value yes for configuration preallocate: Expected value to be either true \
or false
compression.type=foo|Invalid value foo for configuration compression.type: String must be one of: \
uncompressed, zstd, lz4, snappy, gzip, producer
cleanup.policy=compact,foo|Invalid value foo for configuration cleanup.policy: String must be one \
of: compact, delete
cleanup.policy=delete,|Configuration 'cleanup.policy' values must not be empty.
min.cleanable.dirty.ratio=2|Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value \
must be no more than 1
min.cleanable.dirty.ratio=x|Invalid value x for configuration min.cleanable.dirty.ratio: Not a \
number of type DOUBLE
compression.gzip.level=0|Invalid value 0 for configuration compression.gzip.level: Value must be \
between 1 and 9 or equal to -1
compression.zstd.level=23|Invalid value 23 for configuration compression.zstd.level: Value must be \
no more than 22
nosuch=1|Unknown topic config name: nosuch
leader.replication.throttled.replicas=1:2,*|Invalid value [1:2, *] for configuration \
leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal \
'*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:\
[brokerId],...
max.message.bytes=1_000|Invalid value 1_000 for configuration max.message.bytes: Not a number of \
type INT
""".strip().splitlines()


@pytest.fixture
def broker() -> BrokerConfig:
    return BrokerConfig.of()


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusals_have_kafkas_messages(refusal):
    setting, message = refusal.split("|")
    with pytest.raises(KafkaError) as error:
        validate_topic_config(*setting.split("=", 1))
    assert error.value.error is Error.INVALID_CONFIG
    assert error.value.message == message


@pytest.mark.parametrize(
    "setting",
    [
        "retention.ms= 5 ",
        "retention.bytes=-5",
        "cleanup.policy=",
        "cleanup.policy=delete,delete",
        "cleanup.policy=delete, compact",
        "min.cleanable.dirty.ratio=NaN",
        "preallocate= TRUE ",
        "min.cleanable.dirty.ratio=0.5f",
        "max.message.bytes=+5",
        "max.message.bytes=\uff11\uff12",
        "leader.replication.throttled.replicas=1:2, 3:4",
        "leader.replication.throttled.replicas=*",
        "internal.segment.bytes=100",
        "local.retention.bytes=5000000000",
    ],
)
def test_values_that_kafka_accepts_are_accepted(setting):
    validate_topic_config(*setting.split("=", 1))


def test_topics_without_overrides_share_one_object(broker):
    assert broker.topic_config({}) is broker.topic_config({})


def test_topics_with_the_same_overrides_share_one_object(broker):
    first = broker.topic_config({"retention.ms": "1"})
    assert broker.topic_config({"retention.ms": "1"}) is first
    assert broker.topic_config({"retention.ms": "2"}).retention_ms == 2
    for number in range(1000):
        assert broker.topic_config({"retention.ms": str(number)}).retention_ms == number
    assert len(broker._shared_topic_configs) < 1000


def test_overrides_replace_the_brokers_values():
    broker = BrokerConfig.of({"log.segment.bytes": "2097152", "min.insync.replicas": "2"})
    config = broker.topic_config({"segment.bytes": "4194304"})
    assert (config.segment_bytes, config.min_insync_replicas) == (4194304, 2)


def test_a_bare_topic_config_holds_kafkas_defaults(broker):
    assert TopicConfig() == broker.topic_config({})


def test_the_internal_segment_size_may_be_below_the_bound(broker):
    assert broker.topic_config({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_an_override_of_a_newer_kafka_is_ignored(broker):
    assert broker.topic_config({"from.the.future": "1"}) == TopicConfig()


def test_both_policies_may_hold_at_once(broker):
    config = broker.topic_config({"cleanup.policy": "compact, delete"})
    assert config.is_compacted and config.is_deleted


def test_compaction_lags_must_not_cross(broker):
    overrides = {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "5"}
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms \(100\) > max") as error:
        validate_topic(broker, overrides)
    assert error.value.error is Error.INVALID_CONFIG


def test_tiered_storage_is_refused_while_the_broker_has_none(broker):
    with pytest.raises(KafkaError, match="Tiered Storage functionality is disabled"):
        validate_topic(broker, {"remote.storage.enable": "true"})


PROGRAM = """
from wirekafka.config.describe import describe_topic
from wirekafka.config.broker_config import BrokerConfig, TopicConfig, validate_topic_config

config = TopicConfig.of_broker(BrokerConfig.of())
print(config.orders_most, config.overridden({"orders.most": "7"}).orders_most)
validate_topic_config("orders.most", "7")
[described] = [
    each for each in describe_topic(BrokerConfig.of(), {"orders.most": "7"})
    if each.name == "orders.most"
]
print(described.value)
"""


def test_one_row_is_a_topic_option(tmp_path: Path) -> None:
    """It is read, overridden, checked and described, with nothing else changed."""
    package = Path(wirekafka.__file__).parent
    shutil.copytree(package, tmp_path / "wirekafka", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "wirekafka/config/options/topic.py").open("a") as table:
        table.write('    orders_most = integer(5, at_least(1), doc="How many orders.")\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["5", "7", "7"], done.stderr


def test_a_configuration_of_a_topic_is_immutable_and_compared_by_its_values() -> None:
    config = TopicConfig(segment_bytes=1 << 20)
    with pytest.raises(AttributeError):
        config.segment_bytes = 1 << 21  # type: ignore[assignment]
    with pytest.raises(TypeError):
        TopicConfig(segment_size=1)
    assert config == TopicConfig().changed(segment_bytes=1 << 20) != TopicConfig()
    assert {config: 1}[TopicConfig(segment_bytes=1 << 20)] == 1
    assert repr(config) == "TopicConfig(segment_bytes=1048576)"
