"""A broker's bounds for the options of its groups."""

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.group_bounds import BOUNDING, clamped
from wirekafka.coordinator.groups.options import GroupSettings


def test_a_stored_value_is_clamped_to_the_bounds():
    broker = BrokerConfig.of(
        {
            "group.share.max.delivery.count.limit": "5",
            "group.streams.min.task.offset.interval.ms": "20000",
        }
    )
    stored = {
        "share.delivery.count.limit": "7",
        "share.isolation.level": "read_committed",
        "streams.num.standby.replicas": "9",
        "streams.task.offset.interval.ms": "15000",
    }
    assert clamped(broker, stored) == {
        "share.delivery.count.limit": "5",
        "share.isolation.level": "read_committed",
        "streams.num.standby.replicas": "2",
        "streams.task.offset.interval.ms": "20000",
    }


def test_values_within_the_bounds_are_not_copied():
    stored = {"consumer.session.timeout.ms": "50000"}
    assert clamped(BrokerConfig.of(), stored) is stored


def test_groups_use_the_clamped_value():
    config = BrokerConfig.of({"group.consumer.max.session.timeout.ms": "50000"})
    options = GroupSettings(
        lambda: config, lambda group_id: {"consumer.session.timeout.ms": "60000"}
    )
    assert options.consumer("g").session_timeout_ms == 50_000


def test_groups_use_a_setting_as_soon_as_it_is_changed():
    config = BrokerConfig.of({"group.consumer.heartbeat.interval.ms": "6000"})
    stored: dict[str, str] = {}
    options = GroupSettings(lambda: config, lambda group_id: stored if group_id == "own" else {})
    assert options.consumer("own").heartbeat_interval_ms == 6_000
    stored["consumer.heartbeat.interval.ms"] = "7000"
    assert options.consumer("own").heartbeat_interval_ms == 7_000
    stored["consumer.heartbeat.interval.ms"] = "8000"
    assert options.consumer("own").heartbeat_interval_ms == 8_000
    config = BrokerConfig.of(
        {
            "group.consumer.heartbeat.interval.ms": "9000",
            "group.consumer.max.heartbeat.interval.ms": "7500",
        }
    )
    assert options.consumer("own").heartbeat_interval_ms == 7_500
    assert options.consumer("other").heartbeat_interval_ms == 9_000
    stored.clear()
    assert options.consumer("own").heartbeat_interval_ms == 9_000


def test_every_bound_belongs_to_an_option():
    assert len(BOUNDING) == 27
