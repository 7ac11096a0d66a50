"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

import asyncio
import logging

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.alter_configs import alter_configs
from wirekafka.apis.describe_configs import describe_configs
from wirekafka.apis.incremental_alter_configs import incremental_alter_configs
from wirekafka.apis.list_config_resources import list_config_resources
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def cluster():
    cluster = Cluster()
    cluster.create("t")
    cluster.host.configure_broker = lambda *dynamic: setattr(
        cluster, "config", cluster.config.with_dynamic(*dynamic)
    )
    return cluster


def alter(cluster, *resources, version=1, validate_only=False):
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    request = IncrementalAlterConfigsRequest(
        validate_only=validate_only,
        resources=[
            resource(
                resource_type=type,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for type, name, *changes in resources
        ],
    )
    response = cluster.call(incremental_alter_configs, request, version)
    return [(each.error_code, each.error_message) for each in response.responses]


def describe(cluster, type, name, *keys, version=4, **fields):
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(
                resource_type=type, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        **{"include_synonyms": True, **fields},
    )
    [result] = cluster.call(describe_configs, request, version).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_of_describe_configs_lists_every_topic_config(cluster, version):
    result = describe(cluster, TOPIC, "t", version=version)
    assert (result.error_code, result.error_message, len(result.configs)) == (0, "", 37)
    policy = result.configs[0]
    assert (policy.name, policy.value, policy.config_source) == ("cleanup.policy", "delete", 5)
    assert [(s.name, s.value, s.source) for s in policy.synonyms] == [
        ("log.cleanup.policy", "delete", 5)
    ]
    assert policy.config_type == (7 if version >= 3 else 0)


def test_an_empty_list_of_keys_means_every_config(cluster):
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(
                resource_type=TOPIC, resource_name="t", configuration_keys=[]
            )
        ]
    )
    [result] = cluster.call(describe_configs, request, 4).results
    assert len(result.configs) == 37


def test_synonyms_and_documentation_are_returned_if_requested(cluster):
    [described] = describe(cluster, TOPIC, "t", "cleanup.policy", include_synonyms=False).configs
    assert described.synonyms == [] and described.documentation is None


def test_a_set_value_takes_effect_at_once_and_shows_its_source(cluster):
    assert alter(cluster, (TOPIC, "t", ("retention.ms", SET, "7"))) == [(0, None)]
    [described] = describe(cluster, TOPIC, "t", "retention.ms").configs
    assert (described.value, described.config_source) == ("7", 1)


def test_the_clusters_minimum_of_replicas_is_a_dynamic_default(cluster):
    asyncio.run(cluster.publisher.start())
    [described] = describe(cluster, TOPIC, "t", "min.insync.replicas").configs
    assert (described.value, described.config_source) == ("1", 3)


def test_dynamic_broker_configs_win_over_cluster_wide_ones(cluster):
    asyncio.run(cluster.publisher.start())
    alter(cluster, (BROKER, "", ("log.retention.ms", SET, "7000")))
    alter(cluster, (BROKER, "1", ("log.retention.ms", SET, "9000")))
    [described] = describe(cluster, BROKER, "1", "log.retention.ms").configs
    assert (described.value, described.config_source, described.read_only) == ("9000", 2, False)
    assert [(s.value, s.source) for s in described.synonyms][:2] == [("9000", 2), ("7000", 3)]
    [topics] = describe(cluster, TOPIC, "t", "retention.ms").configs
    assert (topics.value, topics.config_source) == ("9000", 2)
    [cluster_wide] = describe(cluster, BROKER, "", "log.retention.ms").configs
    assert (cluster_wide.value, cluster_wide.config_source) == ("7000", 3)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("remote.log.manager.copier.thread.pool.size", 10),
        ("remote.log.manager.expiration.thread.pool.size", 10),
        ("remote.log.manager.follower.thread.pool.size", 2),
        ("remote.log.reader.threads", 10),
        ("num.io.threads", 8),
    ],
)
def test_a_pool_of_threads_at_most_doubles_or_halves_at_a_time(cluster, name, default):
    asyncio.run(cluster.publisher.start())

    def refusal(wanted, current, reason):
        text = (
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            f"update validation failed for {name}={wanted}, value should {reason} the current "
            f"value {current} for configuration Invalid dynamic configuration"
        )
        return [(Error.INVALID_REQUEST, text)]

    for broker in ("1", ""):
        least, most = default // 2, default * 2
        too_many = refusal(most + 1, default, "not be greater than double")
        assert alter(cluster, (BROKER, broker, (name, SET, str(most + 1)))) == too_many
        if least > 1:
            too_few = refusal(least - 1, default, "be at least half")
            assert alter(cluster, (BROKER, broker, (name, SET, str(least - 1)))) == too_few
        assert alter(cluster, (BROKER, broker, (name, SET, str(most)))) == [(0, None)]
        assert alter(cluster, (BROKER, broker, (name, SET, str(2 * most)))) == [(0, None)]
        # The value that a deletion restores is checked as well.
        too_few = refusal(default, 2 * most, "be at least half")
        assert alter(cluster, (BROKER, broker, (name, DELETE, None))) == too_few
        assert alter(cluster, (BROKER, broker, (name, SET, str(most)))) == [(0, None)]
        assert alter(cluster, (BROKER, broker, (name, DELETE, None))) == [(0, None)]


def test_secrets_are_withheld(cluster):
    [described] = describe(cluster, BROKER, "1", "ssl.keystore.password").configs
    assert described.is_sensitive and described.value is None


@pytest.mark.parametrize(
    ("type", "name", "error", "message"),
    [
        (TOPIC, "nope", Error.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "",
            Error.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "2",
            Error.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (BROKER, "abc", Error.INVALID_REQUEST, "Broker id must be an integer, but it is: abc"),
        *(
            (
                BROKER,
                name,
                Error.INVALID_REQUEST,
                f"Broker id must be an integer, but it is: {name}",
            )
            for name in ("2147483648", "9" * 5000)
        ),
        (LOGGER, "2", Error.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
        (LOGGER, "", Error.INVALID_REQUEST, "Broker id must not be empty"),
        (METRICS, "", Error.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", Error.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_missing_resources_are_reported(cluster, type, name, error, message):
    result = describe(cluster, type, name)
    assert (result.error_code, result.error_message, result.configs) == (error, message, [])


@pytest.mark.parametrize(
    ("resource", "answer"),
    [
        (
            (TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            (Error.INVALID_REQUEST, "Error due to duplicate config keys"),
        ),
        (
            (TOPIC, "t", ("retention.ms", SET, None)),
            (Error.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        ),
        ((TOPIC, "t", ("retention.ms", 9, "1")), (Error.UNKNOWN_SERVER_ERROR, None)),
        (
            (BROKER, "3", ("log.retention.ms", SET, "5")),
            (Error.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 3"),
        ),
        (
            (BROKER, "abc", ("log.retention.ms", SET, "5")),
            (Error.INVALID_REQUEST, "Node id must be an integer, but it is: abc"),
        ),
        (
            (BROKER, "1", ("num.partitions", SET, "5"), ("node.id", SET, "5")),
            (
                Error.INVALID_REQUEST,
                "Cannot update these configs dynamically: [node.id, num.partitions]",
            ),
        ),
        (
            (BROKER, "1", ("log.retention.ms", SET, "x")),
            (
                Error.INVALID_REQUEST,
                "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
            ),
        ),
        (
            (BROKER, "1", ("num.io.threads", SET, "100")),
            (
                Error.INVALID_REQUEST,
                "Invalid value org.apache.kafka.common.config.ConfigException: "
                "Dynamic thread count update validation failed for num.io.threads=100, "
                "value should not be "
                "greater than double the current value 8 for configuration Invalid "
                "dynamic configuration",
            ),
        ),
        (
            (BROKER, "1", ("num.io.threads", SET, "3")),
            (
                Error.INVALID_REQUEST,
                "Invalid value org.apache.kafka.common.config.ConfigException: "
                "Dynamic thread count update validation failed for num.io.threads=3, "
                "value should be at "
                "least half the current value 8 for configuration Invalid dynamic configuration",
            ),
        ),
        (
            (BROKER, "1", ("log.roll.ms", SET, "0")),
            (
                Error.INVALID_REQUEST,
                "requirement failed: log.roll.ms must be greater than or equal to 1",
            ),
        ),
        (
            (LOGGER, "1", ("no.such.logger", SET, "INFO")),
            (Error.INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        ),
        (
            (LOGGER, "1", ("root", DELETE, None)),
            (Error.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        ),
        (
            (LOGGER, "2", ("root", SET, "INFO")),
            (Error.INVALID_REQUEST, "Unexpected node id. Expected 1, but received 2"),
        ),
        (
            (LOGGER, "1", ("root", APPEND, "INFO")),
            (
                Error.INVALID_REQUEST,
                "APPEND operation is not allowed for the BROKER_LOGGER resource",
            ),
        ),
    ],
)
def test_bad_changes_are_refused_with_kafkas_messages(cluster, resource, answer):
    assert alter(cluster, resource) == [answer]


def test_a_resource_named_twice_is_not_changed(cluster):
    change = (TOPIC, "t", ("retention.ms", SET, "7"))
    twice = (Error.INVALID_REQUEST, "Each resource must appear at most once.")
    assert alter(cluster, change, change) == [twice, twice]
    assert not cluster.image.config(TOPIC, "t")


def test_each_resource_has_its_own_result_in_order(cluster):
    answers = alter(
        cluster,
        (TOPIC, "no", ("retention.ms", SET, "7")),
        (BROKER, "9", ("log.retention.ms", SET, "7")),
        (TOPIC, "t", ("retention.ms", SET, "7")),
    )
    assert [code for code, _ in answers] == [
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.INVALID_REQUEST,
        0,
    ]


def test_levels_of_loggers_take_effect_at_once(cluster):
    logger = logging.getLogger("wirekafka.tests.level")
    assert alter(cluster, (LOGGER, "1", (logger.name, SET, "TRACE"))) == [(0, None)]
    assert logger.getEffectiveLevel() == 5
    [described] = describe(cluster, LOGGER, "1", logger.name).configs
    assert (described.value, described.config_source) == ("TRACE", 6)
    alter(cluster, (LOGGER, "1", (logger.name, DELETE, None)))
    assert logger.level == logging.NOTSET


def test_levels_have_no_type_and_their_names_are_listed_in_order(cluster):
    [described] = describe(cluster, LOGGER, "1", "root").configs
    assert described.config_type == 0
    [(error, message)] = alter(cluster, (LOGGER, "1", ("root", SET, "LOUD")))
    assert error == Error.INVALID_CONFIG
    assert message.endswith("Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN")


def test_a_negative_id_is_of_another_broker(cluster):
    expected = "Unexpected broker id, expected 1, but received -1"
    changed = alter(cluster, (BROKER, "-1", ("background.threads", SET, "11")))
    assert changed == [(Error.INVALID_REQUEST, expected)]
    described = describe(cluster, BROKER, "-1")
    assert described.error_message == (
        "Unexpected broker id, expected 1 or empty string, but received -1"
    )


def test_an_unknown_operation_on_a_broker_is_an_invalid_request(cluster):
    changed = alter(cluster, (BROKER, "1", ("background.threads", 9, "11")))
    assert changed == [(Error.INVALID_REQUEST, "Unknown operations type 9")]


@pytest.mark.parametrize("version", range(3))
def test_the_older_alter_configs_resets_what_it_does_not_name(cluster, version):
    alter(cluster, (TOPIC, "t", ("retention.ms", SET, "7")))
    resource = AlterConfigsRequest.Resource
    request = AlterConfigsRequest(
        resources=[
            resource(
                resource_type=TOPIC,
                resource_name="t",
                configs=[resource.AlterableConfig(name="segment.bytes", value="2000000")],
            )
        ]
    )
    [described] = cluster.call(alter_configs, request, version).responses
    assert described.error_code == 0
    assert cluster.image.config(TOPIC, "t") == {"segment.bytes": "2000000"}


def listed(cluster, version, *types):
    request = ListConfigResourcesRequest(resource_types=list(types))
    return [
        (each.resource_type, each.resource_name)
        for each in cluster.call(list_config_resources, request, version).config_resources
    ]


def test_resources_with_configs_are_listed(cluster):
    alter(cluster, (METRICS, "s", ("interval.ms", SET, "1000")))
    alter(cluster, (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")))
    assert listed(cluster, 0) == [(METRICS, "s")]
    assert listed(cluster, 1) == [
        (TOPIC, "t"),
        (BROKER, "1"),
        (LOGGER, "1"),
        (METRICS, "s"),
        (GROUP, "g"),
    ]
    assert listed(cluster, 1, GROUP) == [(GROUP, "g")]
    with pytest.raises(KafkaError) as caught:
        listed(cluster, 1, 3)
    assert caught.value.error is Error.UNSUPPORTED_VERSION
