"""Random histories ("lives") of consumer groups, played step by step on two brokers at once."""

from __future__ import annotations

from collections.abc import Mapping

from compat_tests.consumer_members import Member, Requests, kafka_id
from compat_tests.lives import DESCRIBE, HEARTBEAT, Action, OwnersLife, Pair

_REGEXES = ("{0}-.*", "{0}-(a|b)", "{0}-[b-d]", "nothing", "{0}-a")
_BAD_REGEXES = ("{0}-(", "[", "a**", "\\", "(?=a)")


class Life(OwnersLife):
    """The random history of one consumer group; the same for the same seed."""

    def __init__(self, seed: int, group_id: str, topics: Mapping[str, int], pair: Pair):
        super().__init__(seed, group_id, topics, pair)
        self.requests = Requests(group_id, pair.topic_ids())
        self.has_regexes = self.random.random() < 0.4
        self.has_statics = self.random.random() < 0.5

    # What happens

    def actions(self) -> list[Action]:
        actions: list[Action] = [
            (6 if len(self.members) < 2 else 2, self.join),
            (1, self.send_invalid_request),
            (1, self.look),
        ]
        if self.present():
            actions += [
                (6, self.acknowledge),
                (2, self.beat_quietly),
                (2, self.beat_fully),
                (2, self.beat_out_of_turn),
                (3, self.subscribe),
                (2, self.leave),
                (2, self.commit),
                (1, self.fetch),
            ]
        if any(member.instance_id for member in self.members):
            actions += [(4, self.step_out_or_back), (1, self.join_with_a_used_instance_id)]
        return actions

    # Heartbeats

    def join(self) -> None:
        version = HEARTBEAT if self.has_regexes or self.random.random() < 0.7 else 0
        member = Member(
            kafka_id(self.random) if version or self.random.random() < 0.5 else "",
            instance_id=self.instance(),
            assignor=self._assignor(),
            rack=self.random.choice((None, None, "rack-1")),
        )
        self._choose_topics(member, version)
        if self.beat(member, self.requests.join(member, version), version):
            self.members.append(member)

    def beat_fully(self) -> None:
        member = self.somebody()
        self.beat(
            member,
            self.requests.beat(
                member,
                owned=member.owned,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=member.topics,
                subscribed_topic_regex=member.regex,
            ),
        )

    def subscribe(self) -> None:
        member = self.somebody()
        version = HEARTBEAT if self.has_regexes else self.random.choice((0, 1))
        self._choose_topics(member, version)
        if self.random.random() < 0.2:
            member.assignor = self._assignor()
        request = self.requests.beat(
            member,
            owned=self.random.choice((None, member.owned)),
            subscribed_topic_names=member.topics,
            server_assignor=member.assignor,
            subscribed_topic_regex=member.regex if version else None,
        )
        self.beat(member, request, version)

    def leave(self) -> None:
        member = self.somebody()
        if self.beat(member, self.requests.beat(member, epoch=-1)):
            self.members.remove(member)

    def step_out_or_back(self) -> None:
        member = self.random.choice([each for each in self.members if each.instance_id])
        if not member.is_away:
            if self.beat(member, self.requests.beat(member, epoch=-2)):
                member.is_away = True
            return
        if self.random.random() < 0.6:
            member.member_id = kafka_id(self.random)
        if self.random.random() < 0.3:
            self._choose_topics(member, HEARTBEAT)
        if self.beat(member, self.requests.join(member, HEARTBEAT)):
            member.is_away, member.owned = False, {}

    def join_with_a_used_instance_id(self) -> None:
        member = self.random.choice([each for each in self.members if each.instance_id])
        other = Member(kafka_id(self.random), member.instance_id, member.topics, member.regex)
        epoch = self.random.choice((0, -1, -2, member.epoch))
        if epoch == 0 and member.is_away:
            return
        self.pair.ask(
            self.requests.join(other, HEARTBEAT)
            if epoch == 0
            else self.requests.beat(other, epoch=epoch),
            HEARTBEAT,
        )

    def send_invalid_request(self) -> None:
        somebody = self.random.choice(self.present() or [Member(kafka_id(self.random), epoch=3)])
        stranger = Member(kafka_id(self.random), topics=["x"], epoch=2)
        nobody = Member("", epoch=1)
        beat = self.requests.beat
        regex = self.random.choice(_BAD_REGEXES).format(self.group_id)
        request, version = self.random.choice(
            (
                (beat(stranger), 1),
                (beat(stranger, epoch=-1), 1),
                (beat(nobody), 0),
                (beat(stranger, epoch=0, owned={}), 1),
                (beat(stranger, epoch=-7), 1),
                (beat(stranger, epoch=-2), 1),
                (beat(somebody, instance_id=" "), 1),
                (beat(somebody, rack_id=""), 1),
                (beat(somebody, server_assignor="best"), 1),
                (beat(somebody, subscribed_topic_regex=regex), 1),
                (beat(stranger, instance_id="not-there"), 1),
                (beat(stranger, epoch=-1, instance_id="not-there"), 1),
                (
                    beat(
                        stranger,
                        epoch=0,
                        owned={b"\x01" * 16: [0]},
                        rebalance_timeout_ms=9,
                        subscribed_topic_names=["x"],
                    ),
                    1,
                ),
                (beat(stranger, epoch=0, owned={}, rebalance_timeout_ms=9), 1),
            )
        )
        self.pair.ask(request, version)

    # Descriptions

    def look(self) -> None:
        """Describe the group, in two ways."""
        self.pair.ask(self.requests.describe(), self.random.choice((0, DESCRIBE)))
        self.pair.ask(self.requests.describe_as_classic(), self.random.choice((5, 6)))

    # Helpers

    def _assignor(self) -> str | None:
        return self.random.choice((None, None, None, "uniform", "range"))

    def _choose_topics(self, member: Member, version: int) -> None:
        count = self.random.choice((1, 1, 2, len(self.topics), 0))
        member.topics = self.random.sample(self.topics, min(count, len(self.topics)))
        if version and self.has_regexes:
            member.regex = self.random.choice((*_REGEXES, "")).format(self.group_id)
        if member.regex and self.random.random() < 0.6:
            member.topics = []
