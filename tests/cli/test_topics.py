"""`wirekafka topics` and `wirekafka configs`."""

import json


def test_a_created_topic_is_listed_and_described(run):
    created = run("topics", "create", "flights", "-p", "2", "-c", "retention.ms=60000")
    assert (created.status, created.out, created.err) == (0, "", "created flights\n")
    assert "flights" in run("topics", "list").out.splitlines()
    [described] = json.loads(run("topics", "describe", "flights", "--json").out)
    assert described["configs"] == {"retention.ms": "60000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert described["partitions"][0]["leader"] == described["partitions"][0]["replicas"][0]


def test_an_existing_topic_is_an_error_without_if_not_exists(run, topic):
    again = run("topics", "create", topic)
    assert again.status == 1
    assert again.err == (
        f"wirekafka: topic {topic}: Topic '{topic}' already exists. (TOPIC_ALREADY_EXISTS)\n"
    )
    assert run("topics", "create", topic, "--if-not-exists").status == 0


def test_several_topics_are_deleted_and_missing_ones_are_reported(run, topic):
    outcome = run("topics", "delete", topic, "no-such-topic")
    assert outcome.status == 1
    assert outcome.err.splitlines()[0] == f"deleted {topic}"
    assert "topic no-such-topic" in outcome.err
    assert topic not in run("topics", "list").out.splitlines()


def test_a_topic_grows_and_changes_its_options(run, topic):
    altered = run("topics", "alter", topic, "-p", "5", "-c", "segment.bytes=2097152")
    assert altered.status == 0
    [described] = json.loads(run("topics", "describe", topic, "--json").out)
    assert len(described["partitions"]) == 5
    assert described["configs"] == {"segment.bytes": "2097152"}
    run("topics", "alter", topic, "--delete-config", "segment.bytes")
    assert json.loads(run("topics", "describe", topic, "--json").out)[0]["configs"] == {}


def test_a_bad_option_is_reported_with_kafkas_message(run, topic):
    outcome = run("topics", "alter", topic, "-c", "segment.bytes=5")
    assert outcome.status == 1
    assert "Invalid value 5 for configuration segment.bytes: Value must be at least" in outcome.err


def test_an_unknown_topic_is_reported_in_one_line(run):
    outcome = run("topics", "describe", "no-such-topic")
    assert (outcome.status, outcome.err) == (1, "wirekafka: no topic no-such-topic\n")


def test_configs_show_the_sources_of_values(run, topic):
    run("configs", "alter", "topic", topic, "--set", "cleanup.policy=compact,delete")
    shown = json.loads(run("configs", "describe", "topic", topic, "--json").out)
    assert {
        "name": "cleanup.policy",
        "value": "compact,delete",
        "read_only": False,
        "sensitive": False,
        "source": "topic",
    } in shown
    everything = json.loads(run("configs", "describe", "topic", topic, "--all", "--json").out)
    assert len(everything) == 37


def test_broker_configs_are_altered_and_dropped(run):
    def value() -> list[str]:
        shown = json.loads(run("configs", "describe", "broker", "1", "--all", "--json").out)
        return [(e["value"], e["source"]) for e in shown if e["name"] == "log.roll.ms"]

    assert run("configs", "alter", "broker", "", "--set", "log.roll.ms=123456").status == 0
    assert value() == [("123456", "cluster, dynamic")]
    assert run("configs", "alter", "broker", "", "--delete", "log.roll.ms").status == 0
    assert value() == [(None, "default")]


def test_a_table_in_a_pipe_is_not_cut_off(run, topic):
    run("topics", "alter", topic, "-c", "leader.replication.throttled.replicas=0:1,1:1,2:1")
    line = run("configs", "describe", "topic", topic).out
    assert "leader.replication.throttled.replicas  0:1,1:1,2:1" in line
