"""ListConfigResources: what has configurations."""

from __future__ import annotations

from functools import partial
from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.resource_configs import (
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    TOPIC,
    UNKNOWN,
    incremental,
    values_of,
)
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BOOK = Book(ListConfigResourcesRequest, "administration", ConformanceLevel.ADMIN, "KIP-1142")

_SET = {
    GROUP: ("consumer.session.timeout.ms", "50000"),
    CLIENT_METRICS: ("match", "client_id=nobody"),
}


def _configure(stage: Stage) -> None:
    """Make a topic, a group's configuration and a subscription of client metrics.

    Brokers that have only version 0 need not have configurations of groups.
    """
    stage.create("t")
    for kind, (key, value) in _SET.items():
        if kind == GROUP and stage.version == 0:
            continue
        name = stage.name("c")
        stage.do(incremental(kind, name, (key, SET, value), validate_only=False), 0)
        stage.until(partial(values_of, stage, kind, name), f"configurations of {name}")


def _note_own(stage: Stage, types: list[int]) -> None:
    answer = stage.ask(ListConfigResourcesRequest(resource_types=types))
    if not isinstance(answer, ListConfigResourcesResponse):
        return
    stage.note("types", sorted({each.resource_type for each in answer.config_resources}))
    answer.config_resources = _own(stage, answer)


def _own(stage: Stage, answer: Any) -> list[Any]:
    """The resources of this case, and not of any case that runs beside it."""
    names = {stage.name(text) for text in ("t", "c")}
    return [each for each in answer.config_resources if each.resource_name in names]


_TYPES: dict[str, list[int]] = {
    "topics": [TOPIC],
    "groups": [GROUP],
    "client metrics": [CLIENT_METRICS],
    "groups and client metrics": [GROUP, CLIENT_METRICS],
    "one type twice": [GROUP, GROUP],
    "brokers": [BROKER],
    "loggers": [LOGGER],
}
for _what, _types in _TYPES.items():

    @BOOK.play(_what, versions="1+")
    def _listed(stage: Stage, types: list[int] = _types) -> None:
        _configure(stage)
        _note_own(stage, types)


@BOOK.play("all types", versions="1+")
def _all(stage: Stage) -> None:
    """Without types, all types are listed that can have configurations of their own."""
    _configure(stage)
    answer = stage.do(ListConfigResourcesRequest(resource_types=[]))
    stage.note("error", answer.error_code)
    stage.note("types", sorted({each.resource_type for each in answer.config_resources}))
    stage.note("own", _own(stage, answer))


@BOOK.play("client metrics in version 0", versions="0", source="KIP-1000")
def _of_version_0(stage: Stage) -> None:
    """Version 0 lists subscriptions of client metrics only."""
    _configure(stage)
    answer = stage.ask(ListConfigResourcesRequest())
    if isinstance(answer, ListConfigResourcesResponse):
        answer.config_resources = _own(stage, answer)


BOOK.ask(
    "an unknown type", lambda _: ListConfigResourcesRequest(resource_types=[UNKNOWN]), versions="1+"
)
BOOK.ask(
    "the type of nothing", lambda _: ListConfigResourcesRequest(resource_types=[0]), versions="1+"
)
BOOK.ask(
    "a known and an unknown type",
    lambda _: ListConfigResourcesRequest(resource_types=[LOGGER, UNKNOWN]),
    versions="1+",
)


@BOOK.play("a subscription without configurations", versions="0+", source="KIP-1000")
def _gone(stage: Stage) -> None:
    """A subscription whose last configuration was deleted is no longer listed."""
    _configure(stage)
    name, (key, _) = stage.name("c"), _SET[CLIENT_METRICS]
    stage.do(incremental(CLIENT_METRICS, name, (key, DELETE, None), validate_only=False), 0)
    stage.until(lambda: not values_of(stage, CLIENT_METRICS, name), f"{name} without values")
    answer = stage.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]))
    if isinstance(answer, ListConfigResourcesResponse):
        answer.config_resources = _own(stage, answer)
