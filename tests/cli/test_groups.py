"""`wirekafka consume --group` and `wirekafka groups`."""

import json
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from tests.cli.conftest import Run
from tests.raw_client import RawClient
from wirekafka.client.client import Client
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def described(run, group):
    return json.loads(run("groups", "describe", group, "--json").out)


@pytest.fixture
def filled(run, topic) -> str:
    for partition in "012":
        run("produce", topic, "-p", partition, given="".join(f"{n}\n" for n in range(10)))
    return topic


def test_a_group_continues_at_its_committed_offsets(run, filled):
    first = run("consume", filled, "-g", "stops", "-f", "beginning", "-n", "12")
    rest = run("consume", filled, "-g", "stops", "-f", "beginning", "-e")
    assert len(first.out.split()) == 12
    assert sorted(first.out.split() + rest.out.split()) == sorted("0123456789" * 3)
    assert {p["lag"] for p in described(run, "stops")["partitions"]} == {0}


def test_groups_are_listed_with_their_state(run, filled):
    run("consume", filled, "-g", "listed", "-e")
    groups = json.loads(run("groups", "list", "--json").out)
    assert {
        "group": "listed",
        "type": "classic",
        "state": "Empty",
        "protocol": "consumer",
    } in groups


@pytest.mark.parametrize(
    ("to", "after"),
    [("earliest", 0), ("latest", 10), ("4", 4), ("-3", 7), ("99", 10), ("1970-01-02", 0)],
)
def test_offsets_are_reset_within_the_log(run, filled, to, after):
    run("consume", filled, "-g", f"reset{to}", "-f", "beginning", "-e")
    outcome = run("groups", "reset-offsets", f"reset{to}", "-t", filled, "--to", to, "--json")
    assert {row["after"] for row in json.loads(outcome.out)} == {after}
    assert {p["committed"] for p in described(run, f"reset{to}")["partitions"]} == {after}


def test_a_dry_run_resets_nothing(run, filled):
    run("consume", filled, "-g", "dry", "-f", "beginning", "-e")
    run("groups", "reset-offsets", "dry", "-t", f"{filled}:0,1", "--to", "0", "--dry-run")
    assert {p["committed"] for p in described(run, "dry")["partitions"]} == {10}


def test_a_deleted_group_is_not_listed(run, filled):
    run("consume", filled, "-g", "deleted", "-e")
    assert run("groups", "delete", "deleted").status == 0
    gone = run("groups", "describe", "deleted")
    assert (gone.status, gone.err) == (1, "wirekafka: no group deleted\n")


def test_two_members_share_the_partitions_and_a_group_in_use_is_not_reset(run, filled, bootstrap):
    command = [
        sys.executable,
        "-m",
        "wirekafka",
        "consume",
        filled,
        "-g",
        "shared",
        "-f",
        "beginning",
        "-b",
        bootstrap,
        "--json",
    ]
    members = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        deadline = time.monotonic() + 30
        while len({p["member"] for p in described_if_any(run)} - {None}) < 2:
            assert time.monotonic() < deadline, "the members never shared the topic"
        refused = run("groups", "reset-offsets", "shared", "-t", filled, "--to", "0")
        assert refused.status == 1
        assert "can be reset only while it is Empty" in refused.err
    finally:
        for member in members:
            member.terminate()
            member.wait()


@contextmanager
def broker_assigned_consumer(bootstrap, group, topic):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": "watcher",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def test_a_group_with_server_side_assignment_is_shown_reset_and_deleted(run, filled, bootstrap):
    name = f"{filled}-group"
    with broker_assigned_consumer(bootstrap, name, filled) as consumer:
        seen = [each for each in consumer.consume(30, 20) if each.error() is None]
        assert len(seen) == 30
        consumer.commit(asynchronous=False)
        group = described(run, name)
        assert (group["type"], group["state"], group["assignor"], group["epoch"]) == (
            "consumer",
            "Stable",
            "uniform",
            2,
        )
        assert {p["lag"] for p in group["partitions"]} == {0}
        assert {p["member"] for p in group["partitions"]} == set(group["members"])
        shown = json.loads(run("groups", "describe", name, "--members", "--json").out)
        (member,) = shown["members"]
        assert (member["client"], member["epoch"], member["count"]) == ("watcher", 2, 3)
        refused = run("groups", "reset-offsets", name, "-t", filled, "--to", "0")
        assert "can be reset only while it is Empty" in refused.err
        assert "NON_EMPTY_GROUP" in run("groups", "delete", name).err
    assert run("groups", "reset-offsets", name, "-t", filled, "--to", "-4").status == 0
    assert {p["committed"] for p in described(run, name)["partitions"]} == {6}
    assert run("groups", "delete", name).status == 0
    assert run("groups", "describe", name).err == f"wirekafka: no group {name}\n"


def test_groups_are_filtered_by_type_and_state(run, filled, bootstrap):
    def listed(*filters):
        rows = json.loads(run("groups", "list", *filters, "--json").out)
        return {row["group"] for row in rows} & {"filter-old", "filter-new"}

    run("consume", filled, "-g", "filter-old", "-e")
    with broker_assigned_consumer(bootstrap, "filter-new", filled) as consumer:
        assert consumer.poll(20) is not None
        assert listed() == {"filter-old", "filter-new"}
        assert listed("--type", "Classic") == {"filter-old"}
        assert listed("--type", "consumer", "--state", "stable") == {"filter-new"}
        assert listed("--state", "Empty") == {"filter-old"}
        assert listed("--type", "consumer", "--type", "classic", "--state", "Empty") == {
            "filter-old"
        }
    unknown = run("groups", "list", "--type", "other")
    assert (unknown.status, "expected classic, consumer" in unknown.err) == (1, True)


def described_if_any(run):
    outcome = run("groups", "describe", "shared", "--json")
    return json.loads(outcome.out)["partitions"] if outcome.status == 0 else []


def coordinator_client(bootstrap, group):
    """A connection to the broker, once it coordinates the group."""
    with Client(bootstrap) as client:
        client.coordinator(group)
    host, port = bootstrap.split(":")
    return RawClient(int(port), host)


@contextmanager
def share_member(bootstrap, group, topic):
    """A member of a share group with all partitions of the topic, by raw requests."""
    with coordinator_client(bootstrap, group) as client:
        member = str(uuid.uuid4())

        def beat(epoch, topics=None):
            request = ShareGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
            )
            response = client.call(request, 1)
            assert response.error_code == 0, response.error_message
            return response

        joined = beat(0, [topic])
        deadline = time.monotonic() + 30
        while not (joined.assignment and joined.assignment.topic_partitions):
            # The states of the share partitions are initialized first.
            assert time.monotonic() < deadline, "no partitions were assigned"
            joined = beat(joined.member_epoch)
        try:
            yield member
        finally:
            beat(-1)


@contextmanager
def streams_member(bootstrap, group, topic):
    """A member of a streams group that reads the topic, by raw requests."""
    subtopology = StreamsGroupTopologyValue.Subtopology(subtopology_id="0", source_topics=[topic])
    with coordinator_client(bootstrap, group) as client:
        member = str(uuid.uuid4())

        def beat(epoch, **fields):
            request = StreamsGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=epoch, **fields
            )
            response = client.call(request, 1)
            assert response.error_code == 0, response.error_message
            return response

        joined = beat(
            0,
            rebalance_timeout_ms=60_000,
            process_id="p",
            topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
        )
        deadline = time.monotonic() + 30
        while not joined.active_tasks:  # The first assignment is delayed.
            assert time.monotonic() < deadline, "no tasks were assigned"
            joined = beat(joined.member_epoch)
        try:
            yield member
        finally:
            beat(-1)


def test_a_share_group_is_shown_reset_and_deleted(run, filled, bootstrap):
    name = f"{filled}-group"
    with share_member(bootstrap, name, filled) as id:
        shown = json.loads(run("groups", "describe", name, "--members", "--json").out)
        assert (shown["type"], shown["state"], shown["assignor"]) == ("share", "Stable", "simple")
        assert [(each["member"], each["count"]) for each in shown["members"]] == [(id, 3)]
        refused = run("groups", "reset-offsets", name, "-t", filled, "--to", "0")
        assert "can be reset only while it is Empty" in refused.err
        assert "NON_EMPTY_GROUP" in run("groups", "delete", name).err
    assert run("groups", "reset-offsets", name, "-t", filled, "--to", "4").status == 0
    rows = described(run, name)["partitions"]
    assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [(4, 10, 6)] * 3
    assert run("groups", "delete", name).status == 0
    assert run("groups", "describe", name).err == f"wirekafka: no group {name}\n"


def test_a_streams_group_is_shown_reset_and_deleted(run, filled, bootstrap):
    name = f"{filled}-group"
    with streams_member(bootstrap, name, filled) as id:
        shown = described(run, name)
        assert (shown["type"], shown["state"], shown["members"]) == ("streams", "Stable", [id])
        assert shown["topology"] == {
            "0": {"sources": [filled], "repartition": [], "changelogs": []}
        }
        assert [(row["partition"], row["member"]) for row in shown["partitions"]] == [
            (index, id) for index in range(3)
        ]
        text = run("groups", "describe", name, "--members").out
        assert "0_0 0_1 0_2" in text and f"subtopology 0: sources {filled}" in text
        refused = run("groups", "reset-offsets", name, "-t", filled, "--to", "0")
        assert "can be reset only while it is Empty" in refused.err
    assert run("groups", "reset-offsets", name, "-t", filled, "--to", "4").status == 0
    assert {row["lag"] for row in described(run, name)["partitions"]} == {6}
    assert run("groups", "delete", name).status == 0
    assert run("groups", "describe", name).err == f"wirekafka: no group {name}\n"


def test_a_partition_without_a_leader_does_not_hide_the_others(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topics", "create", "halved", "--partitions", "2")
    for partition in ("0", "1"):
        run("produce", "halved", "--partition", partition, given="a\nb\n")
    run("groups", "reset-offsets", "halves", "--topic", "halved", "--to", "1")
    metadata = Client.metadata

    def without_leader(client: Client, *names: object, **options: object) -> object:
        response = metadata(client, *names, **options)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.partition_index == 1:
                    partition.leader_id = -1
        return response

    monkeypatch.setattr(Client, "metadata", without_leader)
    began_s = time.monotonic()
    found = run("groups", "describe", "halves", "--json")
    assert time.monotonic() - began_s < 20, "it does not wait for a leader"
    rows = json.loads(found.out)["partitions"]
    assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [
        (1, 2, 1),
        (1, None, None),
    ]
    assert "halved-1 has no leader" in found.err
