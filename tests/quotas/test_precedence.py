"""Which quota applies: the eight levels of Kafka, and who shares a rate."""

from __future__ import annotations

import pytest

from wirekafka.quotas.precedence import Applied, Entity, applied

U, C = "user", "client-id"
LEVELS: list[tuple[Entity, tuple[str | None, str | None]]] = [
    (((C, "app"), (U, "ann")), ("ann", "app")),
    (((C, None), (U, "ann")), ("ann", "app")),
    (((U, "ann"),), ("ann", None)),
    (((C, "app"), (U, None)), ("ann", "app")),
    (((C, None), (U, None)), ("ann", "app")),
    (((U, None),), ("ann", None)),
    (((C, "app"),), (None, "app")),
    (((C, None),), (None, "app")),
]
"""Each entity that ann's app belongs to, most specific first, and who shares the rate."""


@pytest.mark.parametrize("level", range(8))
def test_a_more_specific_quota_wins(level: int) -> None:
    quotas = {entity: float(at) for at, (entity, _) in enumerate(LEVELS) if at >= level}
    assert applied(quotas, "ann", "app") == Applied(level, *LEVELS[level][1])


@pytest.mark.parametrize("level", range(8))
def test_each_level_applies_alone(level: int) -> None:
    entity, shared = LEVELS[level]
    assert applied({entity: 7.0}, "ann", "app") == Applied(7, *shared)


@pytest.mark.parametrize(
    "entity", [((C, "app"), (U, "bob")), ((C, "web"), (U, "ann")), ((U, "bob"),), ((C, "web"),)]
)
def test_others_quotas_do_not_apply(entity: Entity) -> None:
    assert applied({entity: 7.0}, "ann", "app") is None


def test_a_default_gives_every_client_a_rate_of_its_own() -> None:
    quotas: dict[Entity, float] = {((U, None),): 7.0}
    assert applied(quotas, "ann", "app") == Applied(7, "ann", None)
    assert applied(quotas, "bob", "app") == Applied(7, "bob", None)


def test_without_a_client_id_only_quotas_of_users_apply() -> None:
    everything: dict[Entity, float] = {entity: float(at) for at, (entity, _) in enumerate(LEVELS)}
    assert applied(everything, "ann", "") == Applied(2, "ann", None)
    assert applied(everything, "bob", "") == Applied(5, "bob", None)
    assert applied({((C, None),): 7.0}, "ann", "") is None
