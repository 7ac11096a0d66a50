"""Settings that contradict each other, or name what there is not, prevent the start."""

import re

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.option import ConfigError
from wirekafka.coordinator.groups.consumer.config import ConsumerGroupConfig
from wirekafka.coordinator.groups.streams.config import StreamsGroupConfig

ASSIGNOR = "org.apache.kafka.coordinator.group.assignor"
STICKY = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"group.consumer.assignors": "range,foo.Bar"},
            "Invalid value foo.Bar for configuration group.consumer.assignors: Class cannot be",
        ),
        ({"group.consumer.assignors": f"{ASSIGNOR}.SimpleAssignor"}, "Class cannot be found"),
        (
            {"group.consumer.assignors": f"range,{ASSIGNOR}.RangeAssignor"},
            "Assignor with name range is already registered.",
        ),
        ({"group.streams.assignors": "foo"}, "Class cannot be found"),
        (
            {"group.streams.topology.description.plugin.class": "com.example.Plugin"},
            "Java classes cannot be loaded",
        ),
        (
            {"group.streams.rack.aware.assignment.tags": "zone, zone"},
            "must not contain duplicate tag keys",
        ),
        ({"log.retention.ms": "0"}, "must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"log.retention.minutes": "0"},
            "Invalid value 0 for configuration log.retention.minutes: log.retention.ms must be",
        ),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1 (from --set)"),
        ({"node.id": "1", "broker.id": "2"}, "node.id and broker.id (2) must be set to the same"),
        ({"cordoned.log.dirs": "/elsewhere"}, "Missing entries : /elsewhere"),
        (
            {"log.dirs": "/a,/b", "cordoned.log.dirs": "*,/a"},
            "When cordoned.log.dirs is set to *, it must not contain other values",
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            "Invalid value 44999 for configuration group.consumer.session.timeout.ms: "
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms (45000) (from --set)",
        ),
        ({"group.share.heartbeat.interval.ms": "15001"}, "(15000) (from --set)"),
        ({"group.share.record.lock.duration.ms": "14999"}, "min.record.lock.duration.ms (15000)"),
        ({"group.streams.num.standby.replicas": "3"}, "max.standby.replicas (2)"),
        ({"group.share.max.share.sessions": "199"}, "equal to group.share.max.size (200)"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "a b:1"}, "contains invalid addresses : a b"),
        ({"log.cleaner.threads": "0"}, "Log cleaner threads should be at least 1"),
        ({"log.cleaner.dedupe.buffer.size": "1"}, "at least 1MB per cleaner thread"),
        ({"early.start.listeners": "OUTSIDE"}, "early.start.listeners contains listener OUTSIDE"),
        ({"principal.builder.class": ""}, "configuration principal.builder.class: Java classes"),
        (
            {"offsets.topic.compression.codec": "9"},
            "Invalid value 9 for configuration offsets.topic.compression.codec: Unknown "
            "compression type id: 9 (from --set)",
        ),
        ({"share.coordinator.state.topic.compression.codec": "-1"}, "compression type id: -1"),
        ({"queued.max.request.bytes": "5"}, "must be larger or equal to socket.request.max.bytes"),
        (
            {"replica.fetch.wait.max.ms": "30001", "replica.socket.timeout.ms": "40000"},
            "less than or equal to replica.lag.time.max.ms (30000)",
        ),
        ({"connections.max.idle.ms": "100"}, "connections.max.idle.ms=100"),
        ({"metric.reporters": "com.example.Reporter"}, "Java classes cannot be loaded"),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            "must not exceed log.cleaner.max.compaction.lag.ms (1)",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"},
            "Each listener must have a different port",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_contradictions_prevent_the_start(settings, complaint):
    with pytest.raises(ConfigError, match=re.escape(complaint)) as caught:
        refuse_unsupported(BrokerConfig.of(settings))
    assert caught.value.name in str(caught.value)


def test_the_default_configuration_has_no_contradictions():
    refuse_unsupported(BrokerConfig.of())


def test_assignors_can_be_given_by_class():
    settings = {
        "group.consumer.assignors": f"{ASSIGNOR}.RangeAssignor,uniform",
        "group.streams.assignors": STICKY,
        "group.share.assignors": f"{ASSIGNOR}.SimpleAssignor",
    }
    config = BrokerConfig.of(settings)
    refuse_unsupported(config)
    assert ConsumerGroupConfig.of(config).assignors == ("range", "uniform")
    assert StreamsGroupConfig.of(config).assignors == ("sticky",)
