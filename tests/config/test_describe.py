"""The entries of DescribeConfigs; the expected ones were recorded from Apache Kafka 4.4.0."""

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from wirekafka.config.option import Type

STATIC = {
    "log.retention.minutes": "600",
    "log.retention.hours": "24",
    "log.roll.hours": "50",
    "log.cleanup.policy": "delete , compact",
    "log.preallocate": "TRUE ",
    "no.such.key": "x",
    "ssl.keystore.password": "hunter2",
    "log.cleaner.io.max.bytes.per.second": "1000000000",
    "listener.name.plaintext.ssl.keystore.password": "hunter2",
}


def entries(listed: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in listed}


def topic(static=STATIC, cluster=(), own=(), overrides=()) -> dict[str, ConfigEntry]:
    broker = BrokerConfig.of(static).with_dynamic(dict(cluster), dict(own))
    return entries(describe_topic(broker, dict(overrides)))


def test_a_topic_lists_its_37_options():
    assert len(topic()) == 37


def test_a_default_names_the_broker_option_it_comes_from():
    entry = topic()["segment.bytes"]
    assert entry.source is ConfigSource.DEFAULT
    assert entry.synonyms == [("log.segment.bytes", "1073741824", ConfigSource.DEFAULT)]


def test_synonyms_keep_the_original_text_beside_the_parsed_value():
    entry = topic()["cleanup.policy"]
    assert (entry.value, entry.source) == ("delete,compact", ConfigSource.STATIC_BROKER)
    assert entry.synonyms == [
        ("log.cleanup.policy", "delete , compact", ConfigSource.STATIC_BROKER),
        ("log.cleanup.policy", "delete", ConfigSource.DEFAULT),
    ]


def test_coarser_units_alone_are_no_synonyms():
    entry = topic()["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("36000000", ConfigSource.DEFAULT, [])


def test_all_units_are_synonyms_once_the_finest_is_set():
    entry = topic(cluster={"log.retention.ms": "777"}, own={"log.retention.ms": "888"})[
        "retention.ms"
    ]
    assert (entry.value, entry.source) == ("888", ConfigSource.DYNAMIC_BROKER)
    assert entry.synonyms == [
        ("log.retention.ms", "888", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "777", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.minutes", "600", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "24", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_an_override_comes_first():
    entry = topic(overrides={"min.cleanable.dirty.ratio": " 0.50 "})["min.cleanable.dirty.ratio"]
    assert (entry.value, entry.source) == ("0.5", ConfigSource.TOPIC)
    assert entry.synonyms == [
        ("min.cleanable.dirty.ratio", "0.5", ConfigSource.TOPIC),
        ("log.cleaner.min.cleanable.ratio", "0.5", ConfigSource.DEFAULT),
    ]


def test_a_broker_lists_350_options_and_unknown_ones_that_were_set():
    listed = entries(describe_broker(BrokerConfig.of()))
    assert len(listed) == 350
    more = entries(describe_broker(BrokerConfig.of(STATIC)))
    assert more.keys() - listed.keys() == {
        "no.such.key",
        "listener.name.plaintext.ssl.keystore.password",
    }


def test_internal_options_are_listed_where_they_were_set():
    overrides = {"internal.segment.bytes": "2000000", "segment.ms": "60000"}
    listed = describe_topic(BrokerConfig.of(), overrides)
    assert len(listed) == 38
    assert [entry.name for entry in listed] == sorted(entry.name for entry in listed)
    internal = entries(listed)["internal.segment.bytes"]
    assert (internal.value, internal.source) == ("2000000", ConfigSource.TOPIC)
    assert internal.synonyms == [("internal.segment.bytes", "2000000", ConfigSource.TOPIC)]
    delay = "log.initial.task.delay.ms"
    assert delay not in entries(describe_broker(BrokerConfig.of()))
    entry = entries(describe_broker(BrokerConfig.of({delay: "20000"})))[delay]
    assert (entry.value, entry.read_only, entry.source) == (
        "20000",
        True,
        ConfigSource.STATIC_BROKER,
    )
    assert entry.synonyms[1] == (delay, "30000", ConfigSource.DEFAULT)


def test_secrets_and_unknown_values_are_withheld():
    listed = entries(describe_broker(BrokerConfig.of(STATIC)))
    assert "hunter2" not in repr(listed)
    assert listed["no.such.key"] == ConfigEntry(
        "no.such.key",
        None,
        True,
        ConfigSource.STATIC_BROKER,
        True,
        [("no.such.key", None, ConfigSource.STATIC_BROKER)],
        0,
        None,
    )
    assert listed["ssl.keystore.password"].sensitive
    prefixed = listed["listener.name.plaintext.ssl.keystore.password"]
    assert (prefixed.type, prefixed.read_only) == (Type.PASSWORD, True)
    assert [synonym.name for synonym in prefixed.synonyms] == [
        "listener.name.plaintext.ssl.keystore.password",
        "ssl.keystore.password",
    ]


def test_the_disk_budget_is_described_with_its_value_and_no_other_option_of_ours():
    options = {"wirekafka.disk.budget.bytes": "1000", "wirekafka.tier": "s3://hunter2@bucket"}
    listed = entries(describe_broker(BrokerConfig.of(options)))
    budget = listed["wirekafka.disk.budget.bytes"]
    assert (budget.value, budget.sensitive, budget.read_only) == ("1000", False, True)
    assert budget.synonyms == [("wirekafka.disk.budget.bytes", "1000", ConfigSource.STATIC_BROKER)]
    assert (listed["wirekafka.tier"].value, listed["wirekafka.tier"].sensitive) == (None, True)


def test_rates_of_replication_are_shown_where_they_were_set():
    name = "leader.replication.throttled.rate"
    assert name not in entries(describe_broker(BrokerConfig.of()))
    both = BrokerConfig.of().with_dynamic({name: "11"}, {name: " 77 "})
    own = (name, " 77 ", ConfigSource.DYNAMIC_BROKER)
    default = (name, "11", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert entries(describe_broker(both))[name] == ConfigEntry(
        name, " 77 ", False, ConfigSource.DYNAMIC_BROKER, False, [own, default], Type.LONG, None
    )
    [entry] = describe_broker_defaults({name: "11"})
    assert entry == ConfigEntry(
        name, "11", False, ConfigSource.DYNAMIC_DEFAULT_BROKER, False, [default], Type.LONG, None
    )


def test_options_of_a_listener_are_described_with_the_option_they_override():
    static = {
        "listener.name.foo.ssl.enabled.protocols": "TLSv1.2 , TLSv1.3",
        "listener.name.foo.plain.connections.max.reauth.ms": "77",
        "ssl.client.auth": "requested",
    }
    own = {"listener.name.FOO.ssl.client.auth": "required"}
    listed = entries(describe_broker(BrokerConfig.of(static).with_dynamic({}, own)))
    protocols = listed["listener.name.foo.ssl.enabled.protocols"]
    assert (protocols.value, protocols.type) == ("TLSv1.2 , TLSv1.3", Type.LIST)
    reauth = listed["listener.name.foo.plain.connections.max.reauth.ms"]
    assert reauth.synonyms == [
        ("listener.name.foo.plain.connections.max.reauth.ms", "77", ConfigSource.STATIC_BROKER),
        ("connections.max.reauth.ms", "0", ConfigSource.DEFAULT),
    ]
    auth = listed["listener.name.FOO.ssl.client.auth"]
    assert (auth.value, auth.read_only) == ("required", True)
    assert auth.synonyms[1:] == [
        ("ssl.client.auth", "requested", ConfigSource.STATIC_BROKER),
        ("ssl.client.auth", "none", ConfigSource.DEFAULT),
    ]


def test_options_of_a_mechanism_are_described_as_unknown_but_for_five():
    known = "listener.name.foo.plain.sasl.jaas.config"
    unknown = (
        "listener.name.foo.oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
        "listener.name.foo.plain.ssl.client.auth",
    )
    listed = entries(describe_broker(BrokerConfig.of(dict.fromkeys((known, *unknown), "x"))))
    assert listed[known].type == Type.PASSWORD
    for name in unknown:
        entry = listed[name]
        assert (entry.value, entry.type, entry.sensitive) == (None, 0, True)


def test_numbers_are_printed_as_java_prints_them():
    listed = entries(describe_broker(BrokerConfig.of(STATIC)))
    assert listed["log.cleaner.io.max.bytes.per.second"].value == "1.0E9"
    plain = entries(describe_broker(BrokerConfig.of()))
    assert plain["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"


def test_options_that_need_a_restart_are_read_only():
    listed = entries(describe_broker(BrokerConfig.of()))
    assert listed["num.partitions"].read_only
    assert not listed["log.retention.ms"].read_only


def test_an_option_that_is_not_set_has_no_value():
    listed = entries(describe_broker(BrokerConfig.of()))
    assert listed["log.dirs"].value is None
    assert listed["log.retention.ms"].value is None


def test_cluster_defaults_list_only_options_that_were_set():
    [entry] = describe_broker_defaults({"message.max.bytes": " 999 "})
    assert (entry.value, entry.source) == (" 999 ", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert not entry.read_only


def test_groups_follow_the_brokers_group_options():
    broker = BrokerConfig.of()
    listed = entries(describe_group(broker, {"consumer.session.timeout.ms": "50000"}))
    assert len(listed) == 21
    entry = listed["consumer.session.timeout.ms"]
    assert (entry.value, entry.source) == ("50000", ConfigSource.GROUP)
    assert entry.synonyms[1] == ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT)
    assert listed["streams.assignor.name"].synonyms == [
        ("group.streams.assignors", "sticky", ConfigSource.DEFAULT)
    ]
    assert listed["share.auto.offset.reset"].synonyms == [
        ("share.auto.offset.reset", "latest", ConfigSource.DEFAULT)
    ]


def test_internal_options_of_a_group_are_listed_where_it_sets_them():
    name = "streams.num.warmup.replicas"
    assert name not in entries(describe_group(BrokerConfig.of(), {}))
    entry = entries(describe_group(BrokerConfig.of(), {name: "3"}))[name]
    assert (entry.value, entry.source) == ("3", ConfigSource.GROUP)


def test_client_metrics_have_three_options():
    listed = entries(describe_client_metrics(BrokerConfig.of(), {"metrics": "a,b"}))
    assert {name: entry.value for name, entry in listed.items()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "a,b",
    }
    assert listed["metrics"].source is ConfigSource.CLIENT_METRICS
