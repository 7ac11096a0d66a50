"""`wirekafka consume --group` and `wirekafka groups`."""

import json
import subprocess
import sys
import time

import pytest


def described(run, group):
    return json.loads(run("groups", "describe", group, "--json").out)


@pytest.fixture
def filled(run, topic) -> str:
    for partition in "012":
        run("produce", topic, "-p", partition, given="".join(f"{n}\n" for n in range(10)))
    return topic


def test_a_group_goes_on_where_it_stopped(run, filled):
    first = run("consume", filled, "-g", "stops", "-f", "beginning", "-n", "12")
    rest = run("consume", filled, "-g", "stops", "-f", "beginning", "-e")
    assert len(first.out.split()) == 12
    assert sorted(first.out.split() + rest.out.split()) == sorted("0123456789" * 3)
    assert {p["lag"] for p in described(run, "stops")["partitions"]} == {0}


def test_groups_are_listed_with_their_state(run, filled):
    run("consume", filled, "-g", "listed", "-e")
    groups = json.loads(run("groups", "list", "--json").out)
    assert {"group": "listed", "type": "classic", "state": "Empty",
            "protocol": "consumer"} in groups


@pytest.mark.parametrize(("to", "after"), [
    ("earliest", 0), ("latest", 10), ("4", 4), ("-3", 7), ("99", 10), ("1970-01-02", 0),
])
def test_offsets_are_reset_within_the_log(run, filled, to, after):
    run("consume", filled, "-g", f"reset{to}", "-f", "beginning", "-e")
    outcome = run("groups", "reset-offsets", f"reset{to}", "-t", filled, "--to", to, "--json")
    assert {row["after"] for row in json.loads(outcome.out)} == {after}
    assert {p["committed"] for p in described(run, f"reset{to}")["partitions"]} == {after}


def test_a_dry_run_resets_nothing(run, filled):
    run("consume", filled, "-g", "dry", "-f", "beginning", "-e")
    run("groups", "reset-offsets", "dry", "-t", f"{filled}:0,1", "--to", "0", "--dry-run")
    assert {p["committed"] for p in described(run, "dry")["partitions"]} == {10}


def test_a_deleted_group_is_gone(run, filled):
    run("consume", filled, "-g", "deleted", "-e")
    assert run("groups", "delete", "deleted").status == 0
    gone = run("groups", "describe", "deleted")
    assert (gone.status, gone.err) == (1, "wirekafka: no group deleted\n")


def test_two_members_share_the_partitions_and_a_group_in_use_is_not_reset(run, filled, bootstrap):
    command = [sys.executable, "-m", "wirekafka", "consume", filled, "-g", "shared",
               "-f", "beginning", "-b", bootstrap, "--json"]
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


def described_if_any(run):
    outcome = run("groups", "describe", "shared", "--json")
    return json.loads(outcome.out)["partitions"] if outcome.status == 0 else []
