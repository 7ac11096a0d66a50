"""The quotas in force, changed at run time, and the accounts of clients."""

from __future__ import annotations

import pytest

from wirekafka.quotas.client_quotas import FETCH, MUTATION, PRODUCE, REQUEST, Account, ClientQuotas
from wirekafka.quotas.precedence import Entity
from wirekafka.quotas.rate import Rate, Windows

NOW_MS = 1_700_000_000_000
APP: Entity = (("client-id", "app"),)
ANY_CLIENT: Entity = (("client-id", None),)
ANN: Entity = (("user", "ann"),)
HOUR_MS = 3_600_000


def quotas() -> ClientQuotas:
    return ClientQuotas(Windows(11, 1000), (PRODUCE, FETCH, REQUEST, MUTATION))


def produce(account: Account) -> Rate:
    assert account.produce is not None
    return account.produce


def is_limited(account: Account) -> bool:
    return any(each is not None for each in (account.produce, account.fetch, account.request))


def test_there_are_none_until_one_is_stored_and_after_the_last_is_removed() -> None:
    stored = quotas()
    assert not stored
    stored.change(APP, PRODUCE, 100)
    assert stored and not stored.measures_work
    stored.change(APP, REQUEST, 10)
    assert stored.measures_work
    stored.change(APP, PRODUCE, None)
    stored.change(APP, REQUEST, None)
    assert not stored and not stored.measures_work


def test_a_quota_that_is_not_enforced_here_is_ignored() -> None:
    stored = ClientQuotas(Windows(11, 1000), (PRODUCE,))
    stored.change(APP, MUTATION, 1)
    stored.change((("ip", None),), "connection_creation_rate", 5)
    assert not stored


def test_an_account_follows_changes() -> None:
    stored = quotas()
    account = stored.account("ann", "app", NOW_MS)
    assert not is_limited(account)
    stored.change(APP, PRODUCE, 100)
    assert stored.account("ann", "app", NOW_MS) is account
    assert is_limited(account)
    assert produce(account).limit == 100
    stored.change(APP, PRODUCE, None)
    assert stored.account("ann", "app", NOW_MS).produce is None


def test_what_was_used_counts_after_a_change() -> None:
    stored = quotas()
    stored.change(ANY_CLIENT, PRODUCE, 100)
    assert produce(stored.account("ann", "app", NOW_MS)).record(1000, NOW_MS) == 0
    stored.change(APP, PRODUCE, 50)
    assert produce(stored.account("ann", "app", NOW_MS)).record(0, NOW_MS) == 10_000


def test_what_was_used_counts_when_a_more_specific_quota_came_and_went() -> None:
    stored = quotas()
    stored.change(ANN, PRODUCE, 100)
    produce(stored.account("ann", "app", NOW_MS)).record(1000, NOW_MS)
    both = APP + ANN
    stored.change(both, PRODUCE, 500)
    assert produce(stored.account("ann", "app", NOW_MS)).record(1000, NOW_MS) == 0
    stored.change(both, PRODUCE, None)
    assert produce(stored.account("ann", "app", NOW_MS)).record(100, NOW_MS) == 1000


def test_clients_of_one_entity_share_its_rate() -> None:
    stored = quotas()
    stored.change(ANN, PRODUCE, 100)
    produce(stored.account("ann", "app", NOW_MS)).record(1000, NOW_MS)
    assert produce(stored.account("ann", "web", NOW_MS)).record(100, NOW_MS) == 1000
    assert not is_limited(stored.account("bob", "web", NOW_MS))


def test_a_throttled_fetch_does_not_count() -> None:
    stored = quotas()
    stored.change(APP, FETCH, 100)
    account = stored.account("ann", "app", NOW_MS)
    assert account.fetched(900, 0, NOW_MS) == 0
    assert account.fetched(200, 0, NOW_MS) == 1000
    assert account.fetched(100, 0, NOW_MS) == 0


def test_work_is_a_percentage_of_the_event_loop_and_throttles_for_a_window_at_most() -> None:
    stored = quotas()
    stored.change(APP, REQUEST, 10)
    account = stored.account("ann", "app", NOW_MS)
    second_ns = 1_000_000_000
    assert account.worked(second_ns, NOW_MS) == 0  # All of one second is 10 % of ten.
    assert account.worked(second_ns // 100, NOW_MS) == 100
    assert account.worked(second_ns * 100, NOW_MS) == 1000


def test_idle_accounts_are_forgotten_and_used_ones_are_not() -> None:
    stored = quotas()
    stored.change(ANY_CLIENT, PRODUCE, 100)
    stored.account("ann", "idle", NOW_MS)
    kept = stored.account("ann", "app", NOW_MS)
    for hour in range(1, 4):
        now_ms = NOW_MS + hour * HOUR_MS
        stored.account("ann", f"new {hour}", now_ms)
        assert stored.account("ann", "app", now_ms) is kept
    assert "idle" not in {each.client_id for each in stored.usage(NOW_MS)}


@pytest.mark.long
def test_a_flood_of_client_ids_is_bounded() -> None:
    stored = quotas()
    stored.change(ANY_CLIENT, PRODUCE, 100)
    for number in range(25_000):
        stored.account("ann", str(number), NOW_MS)
    assert len(list(stored.usage(NOW_MS))) <= 22_000


def test_a_flood_of_long_client_ids_is_bounded() -> None:
    stored = quotas()
    stored.change(ANY_CLIENT, PRODUCE, 100)
    for number in range(3_000):
        stored.account("ann", f"{number}" + "x" * 30_000, NOW_MS)
    assert len(list(stored.usage(NOW_MS))) * 30_000 <= 48 << 20


def test_usage_names_who_shares_a_rate() -> None:
    stored = quotas()
    stored.change(ANN, PRODUCE, 100)
    produce(stored.account("ann", "app", NOW_MS)).record(500, NOW_MS)
    [used] = stored.usage(NOW_MS)
    assert used == (PRODUCE, "ann", None, 100, 50, 0)
