"""Hostile requests of three users get Apache Kafka's responses, for every API and version.

By default, a third of the hostile variants in the latest version and of the earlier versions,
another third in each release. `WIREKAFKA_REFUSALS=all` sends every variant in every version, and
more numbers; `WIREKAFKA_REFUSALS=REGEX` all of the cases whose names it matches.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import pytest

from compat_tests import apache_kafka, refusal_cases
from compat_tests.acl_stage import Stage, plain
from compat_tests.refusal_cases import GRANTS, Case, first_version, users_of
from compat_tests.refusal_differences import DIFFERENCES, Difference
from compat_tests.secured import KafkaUsers, OurUsers, secured_kafka
from compat_tests.wire import comparable
from tests.eventually import eventually
from tests.repetitions import is_thorough
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.registry import Api
from wirekafka.apis.shared.routes import BROKERS, CONTROLLERS, Routes
from wirekafka.config.version import VERSION
from wirekafka.conformance.hostile import few_numbers, frame, many_numbers, variants

_CHOSEN = os.environ.get("WIREKAFKA_REFUSALS", "all" if is_thorough() else "")
_IS_LARGE = _CHOSEN == "all"
_LISTENERS = {"PLAINTEXT": BROKERS, "CONTROLLER": CONTROLLERS}
_SETTLED_S = 2
_ONE_IN = 1 if _CHOSEN else 3
_SHARED = {
    "delegation_token_secret_key": "the secret of all nodes",
    # The records are years old.
    "log_retention_ms": "-1",
    # The members of share groups send no heartbeats and acknowledge nothing, and a long run takes
    # longer than sessions and locks do: by Kafka's clock, and by the one here, 1 ms a request.
    "group_share_session_timeout_ms": "3600000",
    "group_share_max_session_timeout_ms": "3600000",
    "group_share_record_lock_duration_ms": "3600000",
    "group_share_max_record_lock_duration_ms": "3600000",
}
_SETTINGS = {
    "process_roles": "broker,controller",
    "node_id": "1",
    "controller_listener_names": "CONTROLLER",
    "controller_quorum_voters": "1@controller.test:9093",
    "listeners": "PLAINTEXT://broker.test:9092,CONTROLLER://controller.test:9093",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_RANDOM = frozenset(
    {
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac"),
        *("issue_timestamp", "expiry_timestamp", "max_timestamp", "session_id", "documentation"),
    }
)
"""Fields that no two brokers fill in the same way."""


class Pair(NamedTuple):
    ours: Stage
    kafka: Stage
    compared: Counter[str]
    """How many answers were compared, by the kind of listener."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    registry.load()
    ours = OurUsers(**_SETTINGS, **_SHARED)
    directory = tmp_path_factory.mktemp("secured")
    users = list(GRANTS)
    with secured_kafka(directory, users, **_SHARED) as kafka:
        pair = Pair(Stage(ours, GRANTS), Stage(kafka, GRANTS), Counter())
        for stage in pair[:2]:
            refusal_cases.write_a_record(stage)
        yield pair
    ours.close()


class Sent(NamedTuple):
    """The same request for both brokers, which differ in the ids of topics."""

    hostile: str
    ours: bytes
    kafkas: bytes


class Question(NamedTuple):
    """Who asks what of a listener, in which version."""

    listener: str
    user: str
    api: Api
    version: int

    def answers(self, pair: Pair, sent: Sent) -> tuple[Any, Any]:
        """Both responses in comparable form."""
        request, (ours, kafka, _) = self.api.request, pair
        assert isinstance(ours.users, OurUsers) and isinstance(kafka.users, KafkaUsers)
        answer = ours.users.ask_frame(self.user, sent.ours, self.version, request, self.listener)
        wire = kafka.users.wire(self.user, to_controller=self.listener == "CONTROLLER")
        kafkas = wire.ask_frame(sent.kafkas, self.version, request)
        both = (
            _comparable(answer, ours, ours.users.kafka.broker.cluster_id),
            _comparable(kafkas, kafka, apache_kafka.CLUSTER_ID),
        )
        if sent.hostile.endswith(("empty", "twice")):
            return _merged(both[0]), _merged(both[1])
        return both


class Found(NamedTuple):
    """A difference, and the entry of the table that allows it."""

    case: str
    question: Question
    hostile: str
    ours: Any
    kafkas: Any
    allowed: Difference | None

    def __str__(self) -> str:
        listener, user, _, version = self.question
        return (
            f"{listener}: {self.case!r} v{version} by {user}, {self.hostile}\n"
            f"    ours:  {self.ours}\n    Kafka: {self.kafkas}"
        )


@pytest.mark.timeout(7200 if _IS_LARGE else 900)
def test_hostile_requests_get_the_same_responses_as_from_kafka(pair: Pair) -> None:
    found = [
        each
        for listener, routes in _LISTENERS.items()
        for name, case in refusal_cases.cases(pair.ours, routes).items()
        if not _CHOSEN or _IS_LARGE or re.search(_CHOSEN, name)
        for each in _differences(pair, listener, name, case, routes)
    ]
    unexpected = [each for each in found if each.allowed is None]
    print(f"{pair.compared.total()} answers compared, {len(found)} differ")
    assert not unexpected, "\n".join(map(str, (len(unexpected), *_one_of_each(unexpected))))
    if _IS_LARGE:
        gone = set(DIFFERENCES) - {each.allowed for each in found}
        assert not gone, "\n".join(map(str, gone))


def _differences(
    pair: Pair, listener: str, name: str, case: Case, routes: Routes
) -> Iterator[Found]:
    kind = type(case(pair.ours))
    api = registry.declared_by(kind)
    for version in range(first_version(name, kind), kind.versions.last + 1):
        all_sent = _all_sent(pair, case, version)
        if version < kind.versions.last and not _IS_LARGE:
            all_sent = islice(all_sent, 1)
        kept = [each for each in all_sent if _is_due(f"{name} {version} {each.hostile}")]
        for user in users_of(name, api):
            question = Question(listener, user, api, version)
            for sent in kept:
                answers = question.answers(pair, sent)
                pair.compared[listener] += 1
                if answers[0] == answers[1]:
                    continue
                allowed = _allowed(listener, name, sent.hostile)
                if allowed is None and _become_alike(pair, question, sent):
                    continue
                yield Found(name, question, sent.hostile, *answers, allowed)


def _one_of_each(found: list[Found]) -> list[Found]:
    """One difference of each case and hostile value, among all versions and users."""
    kinds = {(each.question.listener, each.case, each.hostile): each for each in found}
    return list(kinds.values())


def _all_sent(pair: Pair, case: Case, version: int) -> Iterator[Sent]:
    numbers = many_numbers if _IS_LARGE else few_numbers
    every = (variants(case(stage), version, numbers) for stage in pair[:2])
    for ours, kafkas in zip(*every, strict=True):
        yield Sent(ours.label, frame(ours.request, version), frame(kafkas.request, version))


def _is_due(request: str) -> bool:
    """Whether a request is among those that this release compares."""
    return Random(f"{VERSION} {request}").randrange(_ONE_IN) == 0


def _allowed(*request: str) -> Difference | None:
    return next((each for each in DIFFERENCES if each.covers(*request)), None)


def _become_alike(pair: Pair, question: Question, sent: Sent) -> bool:
    """Whether a later answer is the same: Kafka's brokers learn of a change some time after it."""

    def are_alike() -> bool:
        ours, kafkas = question.answers(pair, sent)
        return bool(ours == kafkas)

    try:
        return bool(eventually(are_alike, timeout_s=_SETTLED_S))
    except AssertionError:
        return False


def _comparable(answer: Any, stage: Stage, cluster_id: str) -> Any:
    names: dict[Any, str] = {id: f"id of {name}" for name, id in stage.ids.items()}
    return _without_random(plain(comparable(answer, {**names, cluster_id: "the cluster"})))


def _merged(answer: Any) -> Any:
    """Without equal elements of lists, nor results of no element.

    Kafka's response to an element that is there twice has it once or twice, depending on the API,
    and that to a topic without partitions has the topic or not.
    """
    if isinstance(answer, dict):
        return {name: _merged(value) for name, value in answer.items()}
    if not isinstance(answer, list):
        return answer
    kept: list[Any] = []
    for each in map(_merged, answer):
        is_empty = isinstance(each, dict) and [] in each.values()
        if each not in kept and not is_empty:
            kept.append(each)
    return kept


def _without_random(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {k: _without_random(value) for k, value in answer.items() if k not in _RANDOM}
    return [_without_random(each) for each in answer] if isinstance(answer, list) else answer
