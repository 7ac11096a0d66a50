"""Heartbeats of stable members: served without a command for the machine, with the same effect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import heartbeat_cost
from tests import share_state_topic
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.codec.message import Request
from wirekafka.coordinator.groups.commands import QuietHeartbeat
from wirekafka.coordinator.groups.shard import GroupShard
from wirekafka.protocol.streams_group_heartbeat import KeyValue
from wirekafka.runtime.runtime import Runtime

KINDS = ("consumer", "share", "streams")
SESSION_MS = 45_000


class Stable:
    """A broker with a stable member of a group of each kind."""

    def __init__(self, directory: Path):
        self.broker = InProcessBroker(
            directory / "broker",
            ManualClock(),
            offsets_topic_num_partitions="1",
            **share_state_topic.settings(),
        )
        self.broker.create("topic", 4)
        self._beats = asyncio.run(heartbeat_cost.beats_of_stable_members(self.broker, groups=1))

    def request(self, kind: str, **fields: Any) -> Request:
        [(request, _)] = self._beats[kind]
        return type(request)(
            **{each.name: getattr(request, each.name) for each in request.fields} | fields
        )

    def beat(self, kind: str, **fields: Any) -> Any:
        """The response to the heartbeat, of which some fields are changed."""
        return self.broker.call(self.request(kind, **fields), 1, "benchmark")

    def shard(self, kind: str) -> tuple[Runtime, GroupShard]:
        runtime = self.broker.broker.groups.shard_for(f"{kind}-0")
        machine = runtime.machine
        assert isinstance(machine, GroupShard)
        return runtime, machine

    def quiet(self, kind: str) -> QuietHeartbeat:
        """The command of the short way."""
        request: Any = self.request(kind)
        _, machine = self.shard(kind)
        group_type = type(machine.groups[request.group_id])
        return QuietHeartbeat(
            group_type,
            request.group_id,
            request.member_id,
            request.member_epoch,
            None,
            "benchmark",
            "/127.0.0.1",
            getattr(request, "endpoint_information_epoch", 0),
        )

    def submit_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Serve no heartbeat the short way."""
        monkeypatch.setattr(self.broker.broker.groups, "renew", lambda command: None)

    def submit_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fail if a heartbeat is not served the short way."""

        def post(*_: Any) -> None:
            raise AssertionError("a command for the machine")

        monkeypatch.setattr(Runtime, "post", post)


@pytest.fixture
def stable(tmp_path: Path) -> Iterator[Stable]:
    stable = Stable(tmp_path)
    yield stable
    asyncio.run(stable.broker.node.stop())


@pytest.mark.parametrize("kind", KINDS)
def test_a_stable_member_is_served_without_a_command(
    stable: Stable, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stable.submit_none(monkeypatch)
    answer = stable.beat(kind)
    assert answer.error_code == 0
    assert answer.member_epoch == stable.request(kind).member_epoch > 1
    assert answer.heartbeat_interval_ms == 5_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_response_and_the_timer_are_those_of_the_command(
    stable: Stable, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, machine = stable.shard(kind)
    end = runtime.end_offset
    stable.broker.clock.advance(100)
    short = stable.beat(kind)
    timers = dict(machine.timers._due)
    stable.submit_all(monkeypatch)
    assert stable.beat(kind) == short
    assert machine.timers._due == timers
    assert runtime.end_offset == end


@pytest.mark.parametrize("seed", range(4))
def test_random_heartbeats_are_answered_as_by_commands(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Runtime.renew` is the fast twin of `Runtime.submit`."""
    random = Random(seed)
    sides = [Stable(tmp_path / "renewed"), Stable(tmp_path / "submitted")]
    sides[1].submit_all(monkeypatch)
    for _ in range(60):
        kind = random.choice(KINDS)
        fields = random.choice(
            (
                {},
                {},
                {},
                {"member_epoch": random.choice((-1, 0, 1, 2, 3, 99))},
                {"member_id": random.choice(("", "stranger"))},
                {"group_id": random.choice(("missing", f"{random.choice(KINDS)}-0", "classic-0"))},
                {"rack_id": "r"},
            )
        )
        delay_ms = random.choice((0, 1, 100, 3_000, SESSION_MS - 1, SESSION_MS))
        seen = []
        for side in sides:
            side.broker.clock.advance(delay_ms)
            answer = side.beat(kind, **fields)
            shards = [side.shard(each) for each in KINDS]
            seen.append(
                (answer, [(dict(it.timers._due), runtime.end_offset) for runtime, it in shards])
            )
        assert seen[0] == seen[1], (seed, kind, fields, delay_ms)
    for side in sides:
        asyncio.run(side.broker.node.stop())


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_extended_and_ends_without_heartbeats(stable: Stable, kind: str) -> None:
    for _ in range(3):
        stable.broker.clock.advance(SESSION_MS - 1)
        assert stable.beat(kind).error_code == 0
    stable.broker.clock.advance(SESSION_MS)
    assert stable.beat(kind).error_code != 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_epoch": 99}, 110),
        ({"member_id": "stranger"}, 25),
        ({"group_id": "missing"}, 69),
        ({"group_id": "classic-0"}, 69),
    ],
    ids=["epoch", "member", "group", "kind of group"],
)
def test_other_heartbeats_get_their_errors(
    stable: Stable, kind: str, fields: dict[str, Any], error: int
) -> None:
    assert stable.beat(kind, **fields).error_code == error


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("consumer", {"subscribed_topic_names": ["other"]}),
        ("consumer", {"subscribed_topic_regex": "other"}),
        ("consumer", {"rebalance_timeout_ms": 5_000}),
        ("consumer", {"server_assignor": "range"}),
        ("consumer", {"rack_id": "r"}),
        ("share", {"subscribed_topic_names": ["other"]}),
        ("share", {"rack_id": "r"}),
        ("streams", {"rebalance_timeout_ms": 5_000}),
        ("streams", {"process_id": "other"}),
        ("streams", {"rack_id": "r"}),
        ("streams", {"client_tags": [KeyValue(key="zone", value="z")]}),
    ],
    ids=lambda each: each if isinstance(each, str) else "-".join(each),
)
def test_what_a_member_reports_is_stored(stable: Stable, kind: str, fields: dict[str, Any]) -> None:
    runtime, _ = stable.shard(kind)
    end = runtime.end_offset
    assert stable.beat(kind, **fields).error_code == 0
    assert runtime.end_offset > end


@pytest.mark.parametrize("kind", KINDS)
def test_another_client_id_is_stored(stable: Stable, kind: str) -> None:
    runtime, _ = stable.shard(kind)
    end = runtime.end_offset
    assert stable.broker.call(stable.request(kind), 1, "renamed").error_code == 0
    assert runtime.end_offset > end


@pytest.mark.parametrize("kind", KINDS)
def test_a_renewal_waits_for_records_that_are_not_committed(stable: Stable, kind: str) -> None:
    runtime, _ = stable.shard(kind)
    command = stable.quiet(kind)
    assert runtime.renew(command) is not None
    runtime._applied += 1
    assert runtime.renew(command) is None
    runtime._applied -= 1
    runtime._machine, machine = None, runtime._machine
    assert runtime.renew(command) is None
    runtime._machine = machine
    assert runtime.renew(command) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_renewal_waits_for_longer_work_on_its_group(stable: Stable, kind: str) -> None:
    runtime, machine = stable.shard(kind)
    command = stable.quiet(kind)
    machine._busy[f"{kind}-0"] = object()  # type: ignore[index]
    assert runtime.renew(command) is None
    del machine._busy[f"{kind}-0"]  # type: ignore[attr-defined]
    assert runtime.renew(command) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_another_session_timeout_takes_effect_with_the_next_heartbeat(
    stable: Stable, kind: str
) -> None:
    broker = stable.broker.broker
    broker.image.configs[32, f"{kind}-0"] = {f"{kind}.session.timeout.ms": "50000"}
    assert stable.beat(kind).error_code == 0
    stable.broker.clock.advance(49_999)
    assert stable.beat(kind).error_code == 0
