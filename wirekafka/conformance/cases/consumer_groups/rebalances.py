"""ConsumerGroupHeartbeat: how members come to own partitions, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.consumer_groups.consumer_play import ConsumerPlay, Owned
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_partitions import CreatePartitionsRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest

BOOK = Book(ConsumerGroupHeartbeatRequest, "consumer groups", ConformanceLevel.GROUPS, "KIP-848")


@BOOK.play("a member alone", versions="1")
def _alone(stage: Stage) -> None:
    """A member joins, confirms what it owns, is quiet, and leaves."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    group.beat("anna")
    group.beat("anna")
    group.leave("anna")
    stage.ask(group.request("anna", group.actors["anna"].epoch))


@BOOK.play("a handshake of two members", versions="0-1")
def _handshake(stage: Stage) -> None:
    """The second gets its partitions only when the first has said that it gave them up."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    group.join("bert", name)
    everything: Owned = {name: [0, 1, 2, 3]}
    group.beat("bert")
    group.beat("anna", everything)
    group.beat("bert")
    group.beat("anna", everything)
    group.beat("anna", {name: [0, 1]})
    group.beat("bert")
    group.beat("bert")
    group.beat("anna")
    group.show()


@BOOK.play("partitions kept too long", versions="1")
def _kept(stage: Stage) -> None:
    """A member reports an owned partition after it gave it up, and one of another member."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    group.join("bert", name)
    group.settle()
    group.beat("anna", {name: [0, 1, 2, 3]})
    group.beat("bert", {name: [0]})
    group.beat("bert", {name: [17]})
    group.beat("bert", {name: []})
    group.show()


@BOOK.play("three members and four partitions", versions="1")
def _three(stage: Stage) -> None:
    """Uniform: four partitions over three members, of which one then leaves."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    for who in ("anna", "bert", "cleo"):
        group.join(who, name)
    group.show()
    group.leave("anna")
    group.show()


@BOOK.play("more members than partitions", versions="1")
def _many(stage: Stage) -> None:
    """Two partitions over three members: one has none, until another leaves."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=2)
    for who in ("anna", "bert", "cleo"):
        group.join(who, name)
        group.settle()
    group.show()
    group.leave("anna")
    group.show()


_ASSIGNORS = ("uniform", "range")

for _assignor in _ASSIGNORS:

    @BOOK.play(f"{_assignor} over two topics", versions="1")
    def _two_topics(stage: Stage, assignor: str = _assignor) -> None:
        """Both members subscribe to both topics, with three partitions each."""
        group = ConsumerPlay(stage)
        names = [group.create(each, partitions=3) for each in "tu"]
        group.join("anna", *names, server_assignor=assignor)
        group.join("bert", *names, server_assignor=assignor)
        group.settle()
        counts = [sum(map(len, each.given.values())) for each in group.actors.values()]
        stage.note("partitions of members", sorted(counts))
        if assignor == "range":
            group.show()

    @BOOK.play(f"{_assignor} over different subscriptions", versions="1")
    def _different(stage: Stage, assignor: str = _assignor) -> None:
        """One member subscribes to both topics, the other to one."""
        group = ConsumerPlay(stage)
        first, second = (group.create(each, partitions=3) for each in "tu")
        group.join("anna", first, second, server_assignor=assignor)
        group.join("bert", second, server_assignor=assignor)
        group.show()

    @BOOK.play(f"{_assignor} over five partitions", versions="1")
    def _five(stage: Stage, assignor: str = _assignor) -> None:
        """A third member joins when two own five partitions."""
        group = ConsumerPlay(stage)
        name = group.create("t", partitions=5)
        for who in ("anna", "bert"):
            group.join(who, name, server_assignor=assignor)
        group.show()
        group.join("cleo", name, server_assignor=assignor)
        group.show()


@BOOK.play("the assignor of the majority", versions="1")
def _majority(stage: Stage) -> None:
    """Two members choose range, one uniform; then one of the two changes its mind."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=5)
    group.join("anna", name, server_assignor="uniform")
    group.join("bert", name, server_assignor="range")
    stage.note("assignor of two", group.described().assignor_name)
    group.join("cleo", name, server_assignor="range")
    group.settle()
    stage.note("assignor of three", group.described().assignor_name)
    group.beat("cleo", server_assignor="uniform")
    group.settle()
    stage.note("assignor after a change", group.described().assignor_name)


@BOOK.play("a subscription that grows and shrinks", versions="0-1")
def _subscription(stage: Stage) -> None:
    """A member adds a topic, drops the first, and subscribes to nothing."""
    group = ConsumerPlay(stage)
    first, second = (group.create(each, partitions=2) for each in "tu")
    group.join("anna", first)
    group.beat("anna", subscribed_topic_names=[first, second])
    group.beat("anna")
    group.beat("anna", subscribed_topic_names=[second])
    group.beat("anna")
    group.beat("anna", subscribed_topic_names=[])
    group.beat("anna")


@BOOK.play("the same subscription in another order", versions="1")
def _order(stage: Stage) -> None:
    """No change of the group: the epoch stays."""
    group = ConsumerPlay(stage)
    names = [group.create(each, partitions=1) for each in "tu"]
    group.join("anna", *names)
    group.settle()
    group.beat("anna", subscribed_topic_names=names[::-1])
    group.beat("anna", subscribed_topic_names=[*names, names[0]])


@BOOK.play("a topic that is created later", versions="1")
def _later(stage: Stage) -> None:
    """A member subscribes to a topic that does not exist yet, and gets it when it does."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.name("t"))
    group.beat("anna")
    stage.create("t", partitions=2)
    stage.until(lambda: _beats(group, "anna") or group.actors["anna"].given, "the new topic")
    group.show()


@BOOK.play("a topic that grows", versions="1")
def _grows(stage: Stage) -> None:
    """Two partitions become five: the member gets the three new ones."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=2)
    group.join("anna", name)
    topic = CreatePartitionsRequest.Topic(name=name, count=5, assignments=None)
    stage.do(CreatePartitionsRequest(topics=[topic], timeout_ms=20_000), 3)
    stage.until(
        lambda: _beats(group, "anna") or len(group.actors["anna"].given[name]) == 5,
        "the new partitions",
    )
    group.show()


@BOOK.play("a topic that is deleted", versions="1")
def _deleted(stage: Stage) -> None:
    """What was of the topic is taken from the member."""
    group = ConsumerPlay(stage)
    first, second = (group.create(each, partitions=2) for each in "tu")
    group.join("anna", first, second)
    group.settle()
    stage.delete(second)
    stage.until(lambda: _beats(group, "anna") or second not in group.actors["anna"].given, "gone")
    group.show()


def _beats(group: ConsumerPlay, who: str) -> bool:
    """A heartbeat that is not compared; always false, so that a condition may follow."""
    actor = group.actors[who]
    request = group.request(who, actor.epoch, actor.given)
    group.take(who, group.stage.do(request, 1))
    return False


_EPOCHS: dict[str, Sequence[int]] = {
    "the previous epoch": (-1,),
    "an epoch before the previous": (-2,),
    "the next epoch": (1,),
    "epochs far away": (100, -100),
    "the previous epoch twice": (-1, -1),
}

for _what, _steps in _EPOCHS.items():

    @BOOK.play(f"{_what} of a member of two", versions="1")
    def _epoch(stage: Stage, steps: Sequence[int] = _steps) -> None:
        """A member sends an epoch that is not its own, with what it owns, after a rebalance."""
        group = ConsumerPlay(stage)
        name = group.create("t", partitions=4)
        group.join("anna", name)
        group.join("bert", name)
        group.settle()
        for step in steps:
            actor = group.actors["anna"]
            stage.ask(group.request("anna", actor.epoch + step, actor.given))
        group.show("anna")


@BOOK.play("a lost answer", versions="1")
def _lost(stage: Stage) -> None:
    """The previous epoch is accepted with partitions that are still the member's, and no others."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    before = group.join("anna", name).member_epoch
    group.join("bert", name)
    group.settle()
    stage.ask(group.request("anna", before, {name: [0]}))
    stage.ask(group.request("anna", before, {name: [0, 1]}))
    stage.ask(group.request("anna", before, {name: [0, 1, 2]}))
    stage.ask(group.request("anna", before, {}))
    stage.ask(group.request("anna", before))


@BOOK.play("a fenced member that joins again", versions="0-1")
def _fenced(stage: Stage) -> None:
    """A wrong epoch is refused; with epoch 0 the member gets its partitions back."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name)
    group.join("bert", name)
    group.settle()
    stage.ask(group.request("anna", 77))
    group.join("anna", name)
    group.show()


@BOOK.play("static members", versions="1", source="KIP-345")
def _static(stage: Stage) -> None:
    """A static member leaves for a while; another id takes its place and its partitions."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name, instance_id="i")
    group.join("bert", name)
    group.settle()
    group.leave("anna", -2)
    group.beat("bert")
    stage.ask(group.request("anna", group.actors["anna"].epoch, instance_id="i"))
    group.join("cleo", name, instance_id="i")
    group.beat("cleo")
    stage.ask(group.request("anna", 3, instance_id="i"))
    group.show()


@BOOK.play("an instance id that is not released", versions="0-1", source="KIP-345")
def _unreleased(stage: Stage) -> None:
    """The instance id of a present member is used by another: to join, beat and leave."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=2)
    epoch = group.join("anna", name, instance_id="i").member_epoch
    stage.ask(group.joining("bert", name, instance_id="i"))
    del group.actors["bert"]
    stage.ask(group.request("bert", epoch, instance_id="i"))
    stage.ask(group.request("bert", -1, instance_id="i"))
    stage.ask(group.request("bert", -2, instance_id="i"))
    group.show()


@BOOK.play("a static member that leaves for good", versions="1", source="KIP-345")
def _for_good(stage: Stage) -> None:
    """With epoch -1 its partitions go to the other member, and its instance id is free."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name, instance_id="i")
    group.join("bert", name, instance_id="j")
    group.settle()
    group.leave("anna")
    group.show()
    group.join("cleo", name, instance_id="i")
    group.show()


@BOOK.play("a static member that comes back with another subscription", versions="1")
def _other_subscription(stage: Stage) -> None:
    """The replaced member's partitions are not given to the new one if it does not want them."""
    group = ConsumerPlay(stage)
    first, second = (group.create(each, partitions=2) for each in "tu")
    group.join("anna", first, instance_id="i")
    group.leave("anna", -2)
    group.join("anna", second, instance_id="i")
    group.show()


@BOOK.play("a static member that comes back under its own id", versions="1", source="KIP-345")
def _same_id(stage: Stage) -> None:
    """It leaves for a while and joins again with the same member id."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=4)
    group.join("anna", name, instance_id="i")
    group.leave("anna", -2)
    stage.ask(group.request("anna", -2, instance_id="i"))
    group.join("anna", name, instance_id="i")
    group.show()
    group.leave("anna", -2)
    group.leave("anna", -1)
    stage.note("members", len(group.described().members))


@BOOK.play("a dynamic member that leaves for a while", versions="1", source="KIP-345")
def _dynamic_leave(stage: Stage) -> None:
    """Epoch -2 without an instance id is refused, with an id that is not its own as well."""
    group = ConsumerPlay(stage)
    group.join("anna", stage.topic)
    stage.ask(group.request("anna", -2))
    stage.ask(group.request("anna", -2, instance_id="i"))
    group.show()


@BOOK.play("a group that is deleted with members, and without", versions="1")
def _delete(stage: Stage) -> None:
    """DeleteGroups is refused while there is a member; afterwards the epochs begin again."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=1)
    group.join("anna", name)
    stage.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    group.leave("anna")
    stage.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    stage.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    group.join("anna", name)


@BOOK.play("an empty group that is joined again", versions="1")
def _again(stage: Stage) -> None:
    """The epochs of a group go on when all members have left."""
    group = ConsumerPlay(stage)
    name = group.create("t", partitions=1)
    for _ in range(3):
        group.join("anna", name)
        group.leave("anna")


def _regex(group: ConsumerPlay, who: str, pattern: str, **fields: Any) -> None:
    request = group.joining(who, subscribed_topic_regex=pattern, **fields)
    group.take(who, group.stage.do(request, 1))


_PATTERNS: dict[str, str] = {
    "all that begin alike": "{}-.*",
    "one of two": "{}-(t|x)",
    "a class": "{}-[a-t]",
    "a part of the name": "{}",
    "an anchored name": "^{}-t$",
    "a word character": "{}-\\w",
    "no letter's case": "(?i){}-T",
    "an alternative that is empty": "{}-t|",
}

for _what, _pattern in _PATTERNS.items():

    @BOOK.play(f"topics by a regular expression: {_what}", versions="1")
    def _matching(stage: Stage, pattern: str = _pattern) -> None:
        """The topics that match, of two that there are."""
        group = ConsumerPlay(stage)
        for each in "tu":
            group.create(each, partitions=1)
        _regex(group, "anna", pattern.format(stage.name()))
        marker = stage.create("v", partitions=1)
        _regex(group, "bert", f"{marker}")
        stage.until(lambda: _beats(group, "bert") or group.actors["bert"].given, "a match")
        group.show("anna")


@BOOK.play("a regular expression and names", versions="1")
def _both(stage: Stage) -> None:
    """A member has the topics of both; without the expression, only the named topics."""
    group = ConsumerPlay(stage)
    first, second = (group.create(each, partitions=1) for each in "tu")
    _regex(group, "anna", second, subscribed_topic_names=[first])
    stage.until(lambda: _beats(group, "anna") or len(group.actors["anna"].given) == 2, "both")
    group.show()
    group.actors["anna"].fields["subscribed_topic_regex"] = ""
    group.beat("anna", subscribed_topic_regex="")
    group.show()
