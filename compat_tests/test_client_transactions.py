"""The transactional producer of wirekafka's client, with the broker under test and with Kafka's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.conftest import RunningBroker
from compat_tests.wire import Wire
from tests.client import transaction_cases as cases
from tests.eventually import eventually
from wirekafka.client.client import BrokerConnection
from wirekafka.errors import Error
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.update_features import UpdateFeaturesRequest

_FEATURE, _NEWEST_LEVEL = "transaction.version", 2
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


@pytest.fixture(params=["broker", "apache_kafka"], scope="module")
def either(request: pytest.FixtureRequest) -> RunningBroker:
    found: RunningBroker = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module", params=[2, 1, 0], ids=lambda level: f"transactions {level}")
def leveled(request: pytest.FixtureRequest, either: RunningBroker) -> Iterator[RunningBroker]:
    """A broker of each level of transactions."""
    wire = Wire(either.address)
    update(wire, request.param)
    yield either
    update(wire, _NEWEST_LEVEL)
    wire.close()


def update(wire: Wire, level: int) -> None:
    """Change the level of transactions, and wait until the broker reports it."""

    def found() -> int:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        levels = {each.name: each for each in wire.ask(request, 4).finalized_features}
        return levels[_FEATURE].max_version_level if _FEATURE in levels else 0

    if level == found():
        return
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=_FEATURE,
        max_version_level=level,
        upgrade_type=_UPGRADE if level > found() else _SAFE_DOWNGRADE,
    )
    response = wire.ask(UpdateFeaturesRequest(feature_updates=[key]), 1)
    assert Error(response.error_code) is Error.NONE, response.error_message
    eventually(lambda: found() == level, timeout_s=30)


def test_transactions_are_seen_whole_or_not_at_all(leveled: RunningBroker) -> None:
    cases.transactions_are_seen_whole_or_not_at_all(leveled.bootstrap)


def test_a_second_producer_fences_the_first(leveled: RunningBroker) -> None:
    cases.a_second_producer_fences_the_first(leveled.bootstrap)


def test_batches_and_offsets_are_committed_together(leveled: RunningBroker) -> None:
    cases.batches_and_offsets_are_committed_together(leveled.bootstrap)


def test_a_run_goes_on_with_new_connections_until_another_begins(leveled: RunningBroker) -> None:
    cases.a_run_goes_on_with_new_connections_until_another_begins(leveled.bootstrap)


def test_a_transaction_that_a_run_has_left_open_is_aborted(leveled: RunningBroker) -> None:
    cases.a_transaction_that_a_run_has_left_open_is_aborted(leveled.bootstrap)


def test_lost_answers_change_nothing(
    leveled: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases.lost_answers_change_nothing(leveled.bootstrap, monkeypatch)


def test_an_idempotent_producer_writes_without_a_transaction(either: RunningBroker) -> None:
    cases.an_idempotent_producer_writes_without_a_transaction(either.bootstrap)


def test_a_client_that_knows_no_levels_writes_too(
    either: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokerConnection, "finalized_level", lambda *_: 0)
    cases.transactions_are_seen_whole_or_not_at_all(either.bootstrap)
    cases.a_second_producer_fences_the_first(either.bootstrap)
    cases.batches_and_offsets_are_committed_together(either.bootstrap)
