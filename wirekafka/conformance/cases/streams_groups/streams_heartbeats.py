"""StreamsGroupHeartbeat: what is refused, topologies, and how tasks are assigned."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.consumer_groups.consumer_play import (
    ConsumerPlay,
    configure,
    member_id,
)
from wirekafka.conformance.cases.streams_groups.streams_play import (
    Part,
    StreamsPlay,
    Topology,
    internal,
    tasks,
    topology,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)

BOOK = Book(StreamsGroupHeartbeatRequest, "streams groups", ConformanceLevel.GROUPS, "KIP-1071")


def _joining(stage: Stage, **changes: Any) -> StreamsGroupHeartbeatRequest:
    """The heartbeat with which a member joins, with changes; its topic does not exist."""
    stage.call(member_id("anna"), "anna")
    values: dict[str, Any] = {
        "group_id": stage.name("g"),
        "member_id": member_id("anna"),
        "member_epoch": 0,
        "rebalance_timeout_ms": 300_000,
        "topology": topology(stage.missing),
        "process_id": "process",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        **changes,
    }
    return StreamsGroupHeartbeatRequest(**values)


_QUIET: dict[str, Any] = dict.fromkeys(
    ("topology", "process_id", "active_tasks", "standby_tasks", "warmup_tasks")
) | {"rebalance_timeout_ms": -1}
_SOME = tasks({"0": [0]})
_CHANGES: dict[str, dict[str, Any]] = {
    "a missing source topic": {},
    "an empty group id": {"group_id": ""},
    "a blank group id": {"group_id": " "},
    "an empty member id": {"member_id": ""},
    "a blank member id": {"member_id": " "},
    "an epoch of minus 3": {"member_epoch": -3},
    "an empty instance id": {"instance_id": ""},
    "a blank instance id": {"instance_id": " "},
    "an empty rack": {"rack_id": ""},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "no topology": {"topology": None},
    "a topology without subtopologies": {"topology": Topology(epoch=0, subtopologies=[])},
    "a negative topology epoch": {"topology": topology("x", epoch=-1)},
    "no process id": {"process_id": None},
    "an empty process id": {"process_id": ""},
    "active tasks not listed": {"active_tasks": None},
    "standby tasks not listed": {"standby_tasks": None},
    "warm-up tasks not listed": {"warmup_tasks": None},
    "no tasks listed": {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
    "active tasks at first": {"active_tasks": _SOME},
    "standby tasks at first": {"standby_tasks": _SOME},
    "warm-up tasks at first": {"warmup_tasks": _SOME},
    "a leave for a while without instance id": {"member_epoch": -2, **_QUIET},
    "a stranger leaves": {"member_epoch": -1, **_QUIET},
    "a stranger leaves for a while": {"member_epoch": -2, "instance_id": "i", **_QUIET},
    "a stranger shuts the application down": {
        "member_epoch": -1,
        "shutdown_application": True,
        **_QUIET,
    },
    "a stranger's heartbeat": {"member_epoch": 2, **_QUIET},
    "a topology after the first heartbeat": {"member_epoch": 2},
    "an endpoint": {"user_endpoint": Endpoint(host="host-1", port=8080)},
    "an endpoint without host": {"user_endpoint": Endpoint(host="", port=0)},
    "tags": {"client_tags": [KeyValue(key="zone", value="z1")]},
    "offsets at first": {"task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]},
    "names and a regular expression": {"topology": topology("x", source_topic_regex=["y"])},
    "only a regular expression": {"topology": topology(source_topic_regex=["nothing.*"])},
    "no source": {"topology": topology()},
    "a source that is internal": {"topology": topology("__consumer_offsets")},
    "a source with an invalid name": {"topology": topology("a b")},
    "a source twice": {"topology": topology("x", "x")},
    "a changelog with partitions": {
        "topology": topology("x", state_changelog_topics=[internal("x-changelog", 3)])
    },
    "a changelog with an invalid name": {
        "topology": topology("x", state_changelog_topics=[internal("a b")])
    },
    "a changelog without a name": {
        "topology": topology("x", state_changelog_topics=[internal("")])
    },
    "a repartition topic with an invalid name": {
        "topology": topology("x", repartition_source_topics=[internal("a b")])
    },
    "a repartition topic that nobody writes": {
        "topology": topology("x", repartition_source_topics=[internal("x-repartition")])
    },
    "a subtopology twice": {
        "topology": Topology(
            epoch=0,
            subtopologies=[
                Part(subtopology_id="0", source_topics=["x"]),
                Part(subtopology_id="0", source_topics=["y"]),
            ],
        )
    },
}


def _with(**changes: Any) -> Make:
    return lambda stage: _joining(stage, **changes)


for _what, _fields in _CHANGES.items():
    BOOK.ask(_what, _with(**_fields))

_LATER: dict[str, dict[str, Any]] = {
    "a member that says nothing new": {},
    "a member with an empty rack": {"rack_id": ""},
    "a member with a blank instance id": {"instance_id": " "},
    "a member with an unknown instance id": {"instance_id": "later"},
    "a member that lists active tasks only": {"active_tasks": [], "standby_tasks": None},
    "a member with a task of no subtopology": {"active_tasks": tasks({"9": [0]})},
    "a member with a task of no partition": {"standby_tasks": tasks({"0": [99]})},
    "a member with a task of another": {"active_tasks": tasks({"0": [0, 1, 2]})},
    "a member that lost its tasks": {"active_tasks": []},
    "a member at the previous epoch": {"epoch": 1},
    "a member at a newer epoch": {"epoch": 9},
    "a member at the highest epoch": {"epoch": 2**31 - 1},
    "a member with another process": {"process_id": "other"},
    "a member with another rack": {"rack_id": "rack-2"},
    "a member with tags": {"client_tags": [KeyValue(key="zone", value="z")]},
    "a member with an endpoint": {"user_endpoint": Endpoint(host="host-1", port=8080)},
    "a member with another rebalance timeout": {"rebalance_timeout_ms": 1000},
    "a member that reports offsets": {
        "task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=5)],
        "task_end_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=9)],
    },
    "a member that shuts the application down": {"shutdown_application": True},
    "a member that has not seen the endpoints": {"endpoint_information_epoch": -1},
}

for _what, _fields in _LATER.items():

    @BOOK.play(_what, versions="0-1")
    def _later(stage: Stage, fields: dict[str, Any] = _fields) -> None:
        """A member has joined alone; then one heartbeat differs, and a quiet one follows."""
        play = StreamsPlay(stage)
        play.actors.clear()
        play.take("anna", stage.do(play.joining("anna", topology(stage.topic)), stage.version))
        play.settle()
        stage.ask(play.full("anna", **fields))
        actor = play.actors["anna"]
        stage.ask(play.request("anna", actor.epoch))


@BOOK.play("a member alone", versions="1")
def _alone(stage: Stage) -> None:
    """It has all tasks of the topic, and leaves."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=3)
    play.join("anna", topology(name))
    play.show()
    play.leave("anna")
    stage.ask(play.request("anna", 2))


@BOOK.play("two members", versions="1")
def _two(stage: Stage) -> None:
    """Four tasks: two each, and all for the member that stays."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=4)
    play.take("anna", stage.do(play.joining("anna", topology(name)), 1))
    play.settle()
    play.take("bert", stage.do(play.joining("bert", topology(name)), 1))
    play.show()
    play.leave("anna")
    play.show()


@BOOK.play("a stateful application of two processes", versions="1")
def _stateful(stage: Stage) -> None:
    """With one standby replica each task has a copy in the other process."""
    play = StreamsPlay(stage, streams_num_standby_replicas="1")
    name = play.create("t", partitions=2)
    changelog = internal(stage.name("store-changelog"), cleanup_policy="compact")
    of = topology(name, state_changelog_topics=[changelog])
    for who in ("anna", "bert"):
        play.take(who, stage.do(play.joining(who, of), 1))
    play.settle()
    stage.note("active tasks", play.counts())
    copies = sorted(sum(map(len, each.given[1].values())) for each in play.actors.values())
    stage.note("standby tasks", copies)


@BOOK.play("a changelog that is created", versions="1")
def _changelog(stage: Stage) -> None:
    """The coordinator creates it with the partitions of the source, and its options."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=3)
    changelog = internal(stage.name("store-changelog"), cleanup_policy="compact")
    play.take(
        "anna",
        stage.do(play.joining("anna", topology(name, state_changelog_topics=[changelog])), 1),
    )
    play.show()
    stage.note("partitions", _partitions(stage, changelog.name))


@BOOK.play("a repartition topic that is created", versions="1")
def _repartition(stage: Stage) -> None:
    """It gets the partitions of the topic whose subtopology writes it."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=3)
    through = internal(stage.name("through-repartition"))
    parts = [
        Part(subtopology_id="0", source_topics=[name], repartition_sink_topics=[through.name]),
        Part(subtopology_id="1", repartition_source_topics=[through]),
    ]
    of = Topology(epoch=0, subtopologies=parts)
    play.take("anna", stage.do(play.joining("anna", of), 1))
    play.show()
    stage.note("partitions", _partitions(stage, through.name))


def _partitions(stage: Stage, name: str) -> int:
    topic = MetadataRequest.Topic(name=name)
    request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    return len(stage.do(request, 9).topics[0].partitions)


@BOOK.play("copartitioned topics of different sizes", versions="1")
def _copartitioned(stage: Stage) -> None:
    """Two sources that must have as many partitions have not: the group is not ready."""
    play = StreamsPlay(stage)
    names = sorted([play.create("t", partitions=3), play.create("u", partitions=2)])
    together = Part.CopartitionGroup(source_topics=[0, 1])
    of = topology(*names, copartition_groups=[together])
    play.join("anna", of)
    play.beat("anna")


@BOOK.play("a source that is created later", versions="1")
def _created(stage: Stage) -> None:
    """The group is not ready, and then is."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.name("t")))
    play.beat("anna")
    stage.create("t", partitions=2)
    play.show()


@BOOK.play("a source that grows", versions="1")
def _grows(stage: Stage) -> None:
    """Two partitions become four tasks."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=2)
    play.take("anna", stage.do(play.joining("anna", topology(name)), 1))
    play.settle()
    topic = CreatePartitionsRequest.Topic(name=name, count=4, assignments=None)
    stage.do(CreatePartitionsRequest(topics=[topic], timeout_ms=20_000), 3)

    def has_four() -> bool:
        play.take("anna", stage.do(play.full("anna"), 1))
        return list(play.counts()) == [4]

    stage.until(has_four, "four tasks")
    play.show()


_EPOCHS = {"an older topology": -1, "the same epoch with another topology": 0, "a newer one": 1}

for _what, _step in _EPOCHS.items():

    @BOOK.play(f"{_what} of a second member", versions="1")
    def _topology_epoch(stage: Stage, step: int = _step) -> None:
        """The group has a topology of epoch 3; the second member brings its own."""
        play = StreamsPlay(stage)
        play.take("anna", stage.do(play.joining("anna", topology(stage.missing, epoch=3)), 1))
        stage.ask(play.joining("bert", topology(stage.topic, epoch=3 + step)))
        stage.ask(play.full("anna"))


@BOOK.play("a static member that comes back", versions="1", source="KIP-345")
def _static(stage: Stage) -> None:
    """It leaves for a while; another id takes its place and its tasks."""
    play = StreamsPlay(stage)
    name = play.create("t", partitions=2)
    fields = {"instance_id": "i"}
    play.take("anna", stage.do(play.joining("anna", topology(name), **fields), 1))
    play.settle()
    epoch = play.actors["anna"].epoch
    play.leave("anna", -2)
    stage.ask(play.request("anna", epoch, instance_id="i"))
    play.take("bert", stage.do(play.joining("bert", topology(name), **fields), 1))
    stage.ask(play.request("anna", epoch, instance_id="i"))
    play.show()


@BOOK.play("a shutdown of the application", versions="1")
def _shutdown(stage: Stage) -> None:
    """One member asks for it; the other is answered so from then on."""
    play = StreamsPlay(stage)
    for who in ("anna", "bert"):
        play.take(who, stage.do(play.joining(who, topology(stage.missing)), 1))
    stage.ask(play.full("anna", shutdown_application=True))
    stage.ask(play.full("bert"))
    play.leave("anna")
    stage.ask(play.full("bert"))


@BOOK.play("a group that is deleted", versions="1")
def _deleted(stage: Stage) -> None:
    """Not while there is a member."""
    play = StreamsPlay(stage)
    play.join("anna", topology(stage.missing))
    stage.ask(DeleteGroupsRequest(groups_names=[play.group_id]), 2)
    play.leave("anna")
    stage.ask(DeleteGroupsRequest(groups_names=[play.group_id]), 2)
    play.join("anna", topology(stage.missing))


@BOOK.play("a consumer group", versions="0-1")
def _consumers(stage: Stage) -> None:
    """A group of another kind, with a member and without."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(_joining(stage))
    group.leave("anna")
    stage.ask(_joining(stage))


_CONFIGS: dict[str, tuple[str, ...]] = {
    "streams_heartbeat_interval_ms": ("5000", "4999", "15001"),
    "streams_session_timeout_ms": ("45000", "44999", "60001"),
    "streams_num_standby_replicas": ("0", "2", "3", "-1"),
    "streams_assignment_interval_ms": ("0", "-1", "15001"),
    "streams_initial_rebalance_delay_ms": ("0", "-1", "9000"),
    "streams_assignor_name": ("sticky", "best", ""),
}

for _key, _values in _CONFIGS.items():
    for _value in _values:

        @BOOK.play(f"{_key.replace('_', '.')}={_value}", versions="1", source="KIP-1071")
        def _configured(stage: Stage, key: str = _key, value: str = _value) -> None:
            """An option of the group is set, or refused."""
            stage.note("answer", configure(stage, stage.name("g"), **{key: value}))
