"""Changes of configurations at run time are accepted and refused as by Apache Kafka.

All are only validated, so that neither broker changes.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from compat_tests.config_cases import Described, several, singles
from compat_tests.wire import Wire
from tests.repetitions import repetitions
from wirekafka.config.option import text_of
from wirekafka.config.options import BROKER, CLIENT_METRICS, GROUP, THROTTLES, TOPIC, Table
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

_TOPIC, _BROKER, _CLIENT_METRICS, _GROUP = 2, 4, 16, 32
_SET = 0
_COUNT = repetitions("WIREKAFKA_SETTINGS", usual=80, thorough=500)
"""How many changes of one option are compared for each kind of resource, and of several."""
_AT_ONCE = 100
_SEED = 4

Cases = Sequence[dict[str, str]]
Validate = Callable[[Wire, Cases], list[tuple[int, str | None]]]


def _create_topics(wire: Wire, cases: Cases) -> list[tuple[int, str | None]]:
    """Validate a new topic with each of the configurations."""
    topic = CreateTopicsRequest.CreatableTopic
    found = []
    for start in range(0, len(cases), _AT_ONCE):
        topics = [
            topic(
                name=f"topic-{number}",
                num_partitions=1,
                replication_factor=1,
                configs=[
                    topic.CreatableTopicConfig(name=name, value=text) for name, text in case.items()
                ],
            )
            for number, case in enumerate(cases[start : start + _AT_ONCE])
        ]
        response = wire.ask(CreateTopicsRequest(topics=topics, validate_only=True), 7)
        results = {each.name: each for each in response.topics}
        found += [(results[t.name].error_code, results[t.name].error_message) for t in topics]
    return found


def _alter(kind: int, *, name: str | None = None) -> Validate:
    """Validate each of the configurations for the named resource, or for one each."""

    def validate(wire: Wire, cases: Cases) -> list[tuple[int, str | None]]:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        at_once = _AT_ONCE if name is None else 1
        found = []
        for start in range(0, len(cases), at_once):
            resources = [
                resource(
                    resource_type=kind,
                    resource_name=f"resource-{number}" if name is None else name,
                    configs=[
                        resource.AlterableConfig(name=key, value=text, config_operation=_SET)
                        for key, text in case.items()
                    ],
                )
                for number, case in enumerate(cases[start : start + at_once])
            ]
            request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
            results = {each.resource_name: each for each in wire.ask(request, 1).responses}
            found += [
                (results[each.resource_name].error_code, results[each.resource_name].error_message)
                for each in resources
            ]
        return found

    return validate


def _described(table: Table) -> list[Described]:
    return [
        Described(
            option.name,
            option.type.name,
            text_of(option.default),
            (option.check.__doc__ or "") if option.check else "",
        )
        for option in table.values()
        # Apache Kafka knows neither the options of Confluent Server nor those of wirekafka.
        if not option.name.startswith(("confluent.", "wirekafka."))
    ]


@pytest.mark.parametrize(
    ("table", "validate"),
    [
        (TOPIC, _create_topics),
        (GROUP, _alter(_GROUP)),
        (CLIENT_METRICS, _alter(_CLIENT_METRICS)),
        (BROKER | THROTTLES, _alter(_BROKER, name="1")),
        (BROKER | THROTTLES, _alter(_BROKER, name="")),
    ],
    ids=("topics", "groups", "client metrics", "a broker", "all brokers"),
)
def test_changes_are_refused_alike(
    broker: Any, apache_kafka: Any, table: Table, validate: Validate
) -> None:
    options = _described(table)
    cases = list(singles(options, wide=False))
    random.Random(_SEED).shuffle(cases)
    cases = [*cases[:_COUNT], *several(options, _COUNT, _SEED)]
    answers = [validate(Wire(each.address), cases) for each in (broker, apache_kafka)]
    different = [
        f"{case}:\n  Apache Kafka: {theirs}\n  wirekafka: {ours}"
        for case, ours, theirs in zip(cases, *answers, strict=True)
        # Which of several errors is reported depends on the order of a Java map.
        if ours[0] != theirs[0]
    ]
    shown = "\n".join(different[:20])
    assert not different, f"{len(different)} of {len(cases)} are different:\n{shown}"
