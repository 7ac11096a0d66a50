"""Changing configs, one by one and all at once."""

import time

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.errors import Error
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ReplaceConfigs,
    ResourceChanges,
    changed,
)
from wirekafka.metadata.image.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from wirekafka.protocol.records import metadata as r

SET, DELETE, APPEND, SUBTRACT = ConfigOperation


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.create("t")
    return cluster


def alter(cluster, type, name, *changes, validate_only=False):
    resource = ResourceChanges(type, name, [ConfigChange(*change) for change in changes])
    [error] = cluster.submit(AlterConfigs([resource], validate_only))
    return error and (error.error, error.message)


def configs(cluster, name="t"):
    return cluster.image.config(TOPIC, name)


def test_a_value_is_set_and_reset(cluster):
    assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "7")) is None
    assert configs(cluster) == {"retention.ms": "7"}
    assert alter(cluster, TOPIC, "t", ("retention.ms", DELETE, None)) is None
    assert configs(cluster) == {}


def test_setting_what_is_set_already_writes_nothing(cluster):
    alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"))
    before = cluster.log.end_offset
    alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"), ("segment.ms", DELETE, None))
    assert cluster.log.end_offset == before


def test_items_are_appended_to_the_default_and_subtracted(cluster):
    alter(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert configs(cluster) == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert configs(cluster) == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert configs(cluster) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("kind", [APPEND, SUBTRACT])
def test_long_lists_are_changed_in_time_linear_in_their_length(kind):
    option, count = "leader.replication.throttled.replicas", 20_000
    before = {option: ",".join(f"{number}:1" for number in range(count))}
    others = ",".join(f"{number}:2" for number in range(count))
    began_s = time.process_time()
    after = changed(ResourceChanges(TOPIC, "t", [ConfigChange(option, kind, others)]), before)
    # Far more than it takes, and far less than if each item is compared with each other one.
    assert time.process_time() - began_s < 1
    assert len(after[option].split(",")) == (2 * count if kind is APPEND else count)


def test_only_lists_can_be_appended_to(cluster):
    assert alter(cluster, TOPIC, "t", ("retention.ms", APPEND, "1")) == (
        Error.INVALID_CONFIG,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("num.io.threads", APPEND, "Config value append is not allowed for config key: {}"),
        ("num.io.threads", SUBTRACT, "Config value subtract is not allowed for config key: {}"),
        ("no.such.option", APPEND, "Unknown config name: {}"),
        ("leader.replication.throttled.rate", SUBTRACT, "Unknown config name: {}"),
    ],
)
def test_only_lists_of_a_broker_can_be_appended_to(cluster, name, kind, message):
    assert alter(cluster, BROKER, "1", (name, kind, "1")) == (
        Error.INVALID_CONFIG,
        message.format(name),
    )


def test_an_unknown_key_is_refused_but_may_be_reset(cluster):
    assert alter(cluster, TOPIC, "t", ("foo", SET, "1")) == (
        Error.INVALID_CONFIG,
        "Unknown topic config name: foo",
    )
    assert alter(cluster, TOPIC, "t", ("foo", DELETE, None)) is None


def test_all_changes_of_a_resource_take_effect_or_none(cluster):
    assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"), ("segment.ms", SET, "x"))
    assert configs(cluster) == {}


@pytest.mark.parametrize(
    ("type", "name", "error", "message"),
    [
        (TOPIC, "nope", Error.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (TOPIC, "", Error.INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            TOPIC,
            "a b",
            Error.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or "
            "more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (CLIENT_METRICS, "", Error.INVALID_REQUEST, "Subscription name can't be empty"),
        (GROUP, "", Error.INVALID_REQUEST, "Default group resources are not allowed."),
        (99, "x", Error.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_resources_that_have_no_configs_are_refused(cluster, type, name, error, message):
    assert alter(cluster, type, name, ("retention.ms", SET, "1")) == (error, message)


def test_validating_changes_nothing(cluster):
    assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"), validate_only=True) is None
    assert configs(cluster) == {}


def test_replacing_resets_what_is_not_named(cluster):
    alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"))
    resource = ResourceChanges(TOPIC, "t", [ConfigChange("segment.bytes", SET, "2000000")])
    assert cluster.submit(ReplaceConfigs([resource])) == [None]
    assert configs(cluster) == {"segment.bytes": "2000000"}


def test_a_changed_min_insync_replicas_clears_the_eligible_leader_replicas(cluster):
    before = cluster.log.end_offset
    alter(cluster, TOPIC, "t", ("min.insync.replicas", SET, "2"))
    assert [type(record) for record in cluster.records(before)] == [
        r.ConfigRecord,
        r.ClearElrRecord,
    ]


def test_the_cluster_default_of_min_insync_replicas_is_kept_with_eligible_leader_replicas(cluster):
    assert alter(cluster, BROKER, "1", ("min.insync.replicas", SET, "1")) == (
        Error.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert alter(cluster, BROKER, "", ("min.insync.replicas", DELETE, None)) == (
        Error.INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert alter(cluster, BROKER, "", ("min.insync.replicas", SET, "2")) is None


def test_groups_and_subscriptions_have_configs(cluster):
    assert alter(cluster, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) is None
    assert alter(cluster, CLIENT_METRICS, "s", ("interval.ms", SET, "1000")) is None
    assert cluster.image.config(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert alter(cluster, GROUP, "g", ("foo", SET, "1")) == (
        Error.INVALID_CONFIG,
        "Unknown group config name: foo",
    )


def test_configs_are_deleted_with_their_topic_and_restored_from_the_log(cluster):
    alter(cluster, TOPIC, "t", ("retention.ms", SET, "7"))
    cluster.controller.load()
    assert cluster.controller.machine.image.config(TOPIC, "t") == {"retention.ms": "7"}


def cordon(cluster, *paths, name="1", is_direct=True):
    change = ConfigChange("cordoned.log.dirs", SET, ",".join(paths))
    resource = ResourceChanges(BROKER, name, [change])
    [error] = cluster.submit(AlterConfigs([resource], is_direct=is_direct))
    return error and (error.error, error.message)


def test_directories_are_cordoned_through_a_broker_and_released_at_a_controller_too(cluster):
    unknown = (
        Error.INVALID_CONFIG,
        "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the "
        "current configuration value.",
    )
    assert cordon(cluster, "/a") == unknown
    assert cordon(cluster, "/a", " /b", is_direct=False) is None
    assert cordon(cluster, "/a ", "/b") is None
    assert cordon(cluster, "/a", "/c") == cordon(cluster, "*") == unknown
    assert cordon(cluster, "/b") is None
    assert cordon(cluster, "/a", "/b") == unknown
    assert cordon(cluster, " ") is None
    assert cluster.image.config(BROKER, "1") == {"cordoned.log.dirs": " "}
    assert alter(cluster, BROKER, "1", ("cordoned.log.dirs", DELETE, None)) is None


def test_replacing_configs_at_a_controller_cordons_nothing_new(cluster):
    change = ConfigChange("cordoned.log.dirs", SET, "/a")
    resource = ResourceChanges(BROKER, "1", [change])
    [error] = cluster.submit(ReplaceConfigs([resource], is_direct=True))
    assert error.error is Error.INVALID_CONFIG
    assert cluster.submit(ReplaceConfigs([resource])) == [None]
    assert cluster.submit(ReplaceConfigs([ResourceChanges(BROKER, "1", [])], is_direct=True)) == [
        None
    ]


@pytest.mark.parametrize("name", ["", "1"])
def test_directories_cannot_be_cordoned_below_metadata_version_4_3(cluster, name):
    cluster.image.features["metadata.version"] = 29
    cluster.controller.machine.image.features["metadata.version"] = 29
    assert cordon(cluster, "/a", name=name, is_direct=False) == (
        Error.INVALID_CONFIG,
        "The cordoned.log.dirs configuration value cannot be set because it requires "
        "metadata.version >= 4.3-IV0",
    )
    assert cordon(cluster, name=name)[0] is Error.INVALID_CONFIG
    assert alter(cluster, BROKER, name, ("log.cleaner.threads", SET, "2")) is None
