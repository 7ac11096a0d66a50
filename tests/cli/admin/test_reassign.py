"""`wirekafka reassign`, and how its plans are made."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.admin.conftest import RACKS, RunJson, assert_refused, table
from tests.cli.conftest import Run
from wirekafka import Cluster
from wirekafka.cli.admin import reassign as tested
from wirekafka.client.admin.move_throttle import find_throttles
from wirekafka.client.admin.reassignments import Reassignment
from wirekafka.client.admin.replica_plan import BrokersOfPartitions, balanced
from wirekafka.client.client import Client, CliError

LARGE = 600_000
"""The bytes of a record: a follower fetches one or two of them at once."""


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of four partitions, whose only replicas are all on broker 1."""
    name = re.sub(r"[^a-z_]", "-", request.node.name)
    cluster.create_topic(name, replicas=[[1]] * 4)
    return name


@pytest.fixture
def large_topic(cluster: Cluster, run: Run) -> Iterator[str]:
    """A topic on broker 1, of which a throttled broker copies no more than the beginning."""
    name = "large"
    cluster.create_topic(name, replicas=[[1]])
    for _ in range(8):
        cluster.produce(name, ["x" * LARGE])
    yield name
    run("reassign", "cancel", "--topic", name)
    run("reassign", "unthrottle")
    cluster.delete_topic(name)


def replicas(plan: dict[str, Any]) -> list[list[int]]:
    return [each["replicas"] for each in plan["partitions"]]


def test_a_plan_shows_current_and_proposed_brokers(run: Run, run_json: RunJson, topic: str) -> None:
    plan = run_json("reassign", "plan", "--topic", topic, "--brokers", "1,3")
    assert replicas(plan["current"]) == [[1]] * 4
    assert sorted(replicas(plan)) == [[1], [1], [3], [3]]
    shown = run("reassign", "plan", "--topic", topic, "--brokers", "1,3")
    assert table(shown)[0] == ["TOPIC", "PARTITION", "CURRENT", "PROPOSED"]
    assert Counter(row[3] for row in table(shown)[1:]) == {"1": 2, "3": 2}
    assert shown.err == "2 of 4 partitions change, 2 replicas are copied\n"
    assert (
        run_json("reassign", "plan", "--topic", topic, "--brokers", "1,3")["current"]
        == (plan["current"])
    )


def test_a_plan_is_applied_and_undone(
    run: Run, run_json: RunJson, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("reassign", "plan", "--topic", topic, "--json", "-r", "2").out)
    outcome = run("reassign", "apply", str(plan), "--wait", "--json")
    assert outcome.status == 0, outcome.err
    assert outcome.err.splitlines()[-1] == "4 of 4 partitions are done"
    for index, brokers in enumerate(replicas(json.loads(plan.read_text()))):
        cluster.wait_for(lambda i=index, b=brokers: cluster.replicas(topic, i) == b)
        assert {RACKS[each] for each in brokers} == {"a", "b"}
    undo = json.dumps(json.loads(outcome.out)["current"])
    assert run("reassign", "apply", "-", "--wait", given=undo).status == 0
    cluster.wait_for(lambda: [cluster.replicas(topic, index) for index in range(4)] == [[1]] * 4)
    again = run("reassign", "apply", "-", given=undo)
    assert (again.status, again.out) == (0, "")
    assert again.err == "0 of 4 partitions change, 0 replicas are copied\n"


def test_topics_are_moved_to_brokers_directly(run: Run, cluster: Cluster, topic: str) -> None:
    outcome = run("reassign", "apply", "--topic", topic, "--brokers", "2", "--wait")
    assert outcome.status == 0, outcome.err
    assert table(outcome)[1] == [topic, "0", "1", "2"]
    cluster.wait_for(lambda: [cluster.replicas(topic, index) for index in range(4)] == [[2]] * 4)


def test_progress_is_shown_until_a_move_is_cancelled(
    run: Run, run_json: RunJson, cluster: Cluster, large_topic: str
) -> None:
    assert run("reassign", "status").err == "no reassignments in progress\n"
    words = ("reassign", "apply", "--topic", large_topic, "--brokers", "3")
    outcome = run(*words, "--throttle", "1")
    assert outcome.status == 0
    stays = "the throttle stays until `wirekafka reassign unthrottle`"
    assert outcome.err.splitlines()[-1] == stays

    def copied() -> dict[str, Any] | None:
        [found] = run_json("reassign", "status")
        return found if found["copied"] else None

    found = cluster.wait_for(copied)
    assert (found["topic"], found["adding"], found["removing"]) == (large_topic, [3], [1])
    assert found["all_bytes"] > 8 * LARGE and 0 < found["copied"] < 1
    [_, row] = table(run("reassign", "status", "--topic", large_topic))
    assert row[-1].endswith("%")
    outcome = run("reassign", "status", "--wait", "--timeout", "0")
    assert outcome.status == 1
    assert outcome.err.splitlines()[-1] == "wirekafka: 1 partitions are not done after 0 s"
    assert re.match(r"0 of 1 partitions are done, \d+ of \d+ bytes", outcome.err)
    assert run("reassign", "cancel", "--topic", "other").err == "no reassignments in progress\n"
    outcome = run("reassign", "cancel", "--all", "--json")
    assert json.loads(outcome.out) == [{"topic": large_topic, "partition": 0, "replicas": [1]}]
    remark = "brokers or topics are still throttled, until `wirekafka reassign unthrottle`\n"
    assert outcome.err == run("reassign", "status", "--json").err == remark
    assert [
        (each["kind"], each["name"], each["option"].split(".")[0], each["value"])
        for each in run_json("reassign", "unthrottle")
    ] == [
        ("topic", large_topic, "leader", "0:1"),
        ("topic", large_topic, "follower", "0:3"),
        *(("broker", broker, side, "1") for broker in "13" for side in ("leader", "follower")),
    ]
    assert run("reassign", "unthrottle").err == "no throttles\n"
    assert run("reassign", "status").err == "no reassignments in progress\n"


def test_a_throttle_is_replaced_by_what_was_there_when_all_is_moved(
    run: Run, run_json: RunJson, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttled = "follower.replication.throttled."
    run("configs", "alter", "topic", topic, "--set", f"{throttled}replicas=9:9")
    run("configs", "alter", "broker", "2", "--set", f"{throttled}rate=12345678")
    seen = []
    follow = tested._follow

    def see_and_follow(client: Client, *others: Any) -> None:
        found = {each.name: each.options for each in find_throttles(client)}
        seen.append((found[topic][f"{throttled}replicas"], found["2"][f"{throttled}rate"]))
        follow(client, *others)

    monkeypatch.setattr(tested, "_follow", see_and_follow)
    words = ("reassign", "apply", "--topic", topic, "--brokers", "2", "--wait")
    assert run(*words, "--throttle", "99999999").status == 0
    assert seen == [("9:9,0:2,1:2,2:2,3:2", "99999999")]
    assert [
        (each["name"], each["option"], each["value"]) for each in run_json("reassign", "unthrottle")
    ] == [(topic, f"{throttled}replicas", "9:9"), ("2", f"{throttled}rate", "12345678")]


def test_a_wait_that_ends_early_says_that_the_throttle_stays(run: Run, large_topic: str) -> None:
    words = ("reassign", "apply", "--topic", large_topic, "--brokers", "3", "--throttle", "1")
    outcome = run(*words, "--wait", "--timeout", "0")
    assert outcome.status == 1
    assert outcome.err.splitlines()[-2:] == [
        "the throttle stays until `wirekafka reassign unthrottle`",
        "wirekafka: 1 partitions are not done after 0 s",
    ]


def test_moves_that_are_refused_leave_no_throttle(
    run: Run, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise CliError("the reassignment: CLUSTER_AUTHORIZATION_FAILED")

    monkeypatch.setattr(tested, "reassign", refuse)
    outcome = run("reassign", "apply", "--topic", topic, "--brokers", "2", "--throttle", "5")
    assert_refused(outcome, "CLUSTER_AUTHORIZATION_FAILED")
    assert run("reassign", "unthrottle").err == "no throttles\n"


def test_partitions_that_cannot_move_are_reported_and_others_move(
    run: Run, cluster: Cluster, topic: str
) -> None:
    plan = [
        {"topic": topic, "partition": 0, "replicas": [2]},
        {"topic": topic, "partition": 1, "replicas": [77]},
    ]
    outcome = run("reassign", "apply", "-", "--wait", given=json.dumps({"partitions": plan}))
    assert outcome.status == 1 and table(outcome)[1:] == [[topic, "0", "1", "2"]]
    assert f"{topic}-1: " in outcome.err.splitlines()[-1]
    cluster.wait_for(lambda: cluster.replicas(topic, 0) == [2])
    assert cluster.replicas(topic, 1) == [1]


@pytest.mark.parametrize(
    ("words", "given", "reason"),
    [
        (("plan",), "", "which topics? give --topic"),
        (("plan", "--topic", "no-such-topic"), "", "no topic no-such-topic"),
        (("plan", "--topic", "t", "--brokers", "1,b"), "", "bad --brokers '1,b'"),
        (("plan", "--topic", "t", "--brokers", "1,9"), "", "no broker 9 in service"),
        (("plan", "--topic", "t", "-r", "4"), "", "t-0 needs 4 replicas, of 3 brokers"),
        (("apply",), "", "what is to move?"),
        (("apply", "-", "--topic", "t"), "", "what is to move?"),
        (("apply", "/no/such/file"), "", "No such file"),
        (("apply", "-"), "[]", "expected a plan"),
        (("apply", "-"), '{"partitions": [{"topic": "t", "partition": "0"}]}', "expected a plan"),
        (("apply", "-"), '{"partitions": []}', "the plan has no partitions"),
        (("cancel",), "", "which moves? give --topic, or --all"),
        (("cancel", "--all", "-p", "0"), "", "--partition needs one --topic"),
    ],
)
def test_a_wrong_reassignment_is_refused_in_one_line(
    run: Run, cluster: Cluster, words: tuple[str, ...], given: str, reason: str
) -> None:
    if "t" not in cluster.topics():
        cluster.create_topic("t")
    assert_refused(run("reassign", *words, given=given), reason)


@pytest.mark.parametrize("change", ["twice", "log_dirs"])
def test_a_plan_that_is_not_understood_wholly_is_refused(run: Run, change: str) -> None:
    each: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": [1]}
    plan = [each, each] if change == "twice" else [each | {"log_dirs": ["/disk"]}]
    outcome = run("reassign", "apply", "-", given=json.dumps({"partitions": plan}))
    assert_refused(outcome, "is there twice" if change == "twice" else "log_dirs other than any")


def test_a_copy_is_not_larger_than_the_whole() -> None:
    assert Reassignment("t", 0, [1, 2], [2], [1], 11, 10).fraction == 1
    assert Reassignment("t", 0, [1, 2], [2], [1], 0, 0).fraction == 1
    assert Reassignment("t", 0, [1, 2], [2], [1]).fraction is None


@pytest.mark.parametrize("seed", range(40))
def test_plans_are_even_and_keep_what_they_can(seed: int) -> None:
    random = Random(seed)
    brokers = range(1, random.randint(2, 9))
    racks = {broker: str(broker % random.choice([1, 2, 3])) for broker in brokers}
    factor = random.randint(1, len(racks))
    old = [each for each in range(1, 12) if random.random() < 0.7 or each == 1]
    current: BrokersOfPartitions = {
        ("t", index): random.sample(old, min(len(old), random.randint(1, 4)))
        for index in range(random.randint(1, 40))
    }
    plan = balanced(current, racks, factor)
    assert plan.keys() == current.keys()
    for assigned in plan.values():
        assert len(assigned) == len(set(assigned)) == factor
        assert set(assigned) <= racks.keys()
    for assigned in plan.values():
        # A rack has more than another one only where that has no further broker.
        in_racks = Counter(racks[each] for each in assigned)
        for rack, count in Counter(racks.values()).items():
            assert in_racks[rack] == count or in_racks[rack] + 1 >= max(in_racks.values())
    if len(set(Counter(racks.values()).values())) == 1:
        loads = Counter(dict.fromkeys(racks, 0))
        loads.update(each for assigned in plan.values() for each in assigned)
        assert max(loads.values()) - min(loads.values()) <= 1
    assert balanced(plan, racks, factor) == plan


def test_a_new_broker_gets_its_share_and_the_others_keep_the_rest() -> None:
    current: BrokersOfPartitions = {
        ("t", index): [1 + index % 2, 2 - index % 2] for index in range(6)
    }
    plan = balanced(current, dict.fromkeys([1, 2, 3]))
    assert Counter(each for assigned in plan.values() for each in assigned) == {1: 4, 2: 4, 3: 4}
    new = sum(len(set(plan[each]) - set(current[each])) for each in plan)
    assert new == 4
    assert Counter(assigned[0] for assigned in plan.values()) == {1: 2, 2: 2, 3: 2}


def test_a_plan_needs_enough_brokers() -> None:
    with pytest.raises(CliError, match="t-0 needs 2 replicas, of 1 brokers"):
        balanced({("t", 0): [1, 2]}, {1: None})
