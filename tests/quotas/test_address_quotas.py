"""`connection_creation_rate`: how many connections each address may open."""

from __future__ import annotations

from collections.abc import Callable

from wirekafka.quotas.address_quotas import AddressQuotas
from wirekafka.quotas.rate import Windows

NOW_MS = 1_700_000_000_000


def quotas() -> AddressQuotas:
    return AddressQuotas(Windows(11, 1000))


def opened(stored: AddressQuotas, address: str, now_ms: int, attempts: int = 50) -> int:
    return sum(not stored.throttle_ms(address, now_ms) for _ in range(attempts))


def test_everyone_may_connect_without_a_quota() -> None:
    assert opened(quotas(), "10.0.0.1", NOW_MS) == 50


def test_an_address_opens_ten_windows_of_connections_at_once_and_then_its_rate() -> None:
    stored = quotas()
    stored.change("10.0.0.1", 2)
    assert opened(stored, "10.0.0.1", NOW_MS) == 20
    assert opened(stored, "10.0.0.2", NOW_MS) == 50
    later = sum(opened(stored, "10.0.0.1", NOW_MS + at_ms) for at_ms in range(500, 33_000, 500))
    assert abs(20 + later - 2 * 33) <= 4


def test_the_default_is_for_each_address_that_has_none() -> None:
    stored = quotas()
    stored.change(None, 1)
    stored.change("10.0.0.1", 3)
    assert opened(stored, "10.0.0.1", NOW_MS) == 30
    assert opened(stored, "10.0.0.2", NOW_MS) == opened(stored, "10.0.0.3", NOW_MS) == 10
    stored.change("10.0.0.1", None)
    assert opened(stored, "10.0.0.1", NOW_MS) == 0
    stored.change(None, None)
    assert opened(stored, "10.0.0.1", NOW_MS) == 50


def test_an_address_is_known_in_every_spelling() -> None:
    stored = quotas()
    stored.change("0:0:0:0:0:0:0:1", 1)
    assert opened(stored, "::1", NOW_MS) == 10


def test_a_flood_of_addresses_is_bounded() -> None:
    stored = quotas()
    stored.change(None, 1)
    for number in range(25_000):
        assert not stored.throttle_ms(f"10.{number >> 8}.{number & 255}.1", NOW_MS)
    assert len(stored._rates) + len(stored._old_rates) <= 20_000


def test_a_host_is_looked_up_when_its_quota_is_set() -> None:
    asked: list[tuple[str, Callable[[str | None], None]]] = []
    stored = AddressQuotas(Windows(11, 1000), lambda host, done: asked.append((host, done)))
    stored.change("clients.test", 1)
    [(host, done)] = asked
    assert host == "clients.test"
    assert opened(stored, "10.0.0.9", NOW_MS) == 50
    done("10.0.0.9")
    assert opened(stored, "10.0.0.9", NOW_MS) == 10
    assert opened(stored, "10.0.0.1", NOW_MS) == 50
    stored.change("clients.test", None)
    assert opened(stored, "10.0.0.9", NOW_MS) == 50


def test_only_the_last_look_up_of_a_host_counts() -> None:
    asked: list[Callable[[str | None], None]] = []
    stored = AddressQuotas(Windows(11, 1000), lambda host, done: asked.append(done))
    for limit in (1, 2, None):
        stored.change("clients.test", limit)
    stored.change("clients.test", 3)
    for done, address in zip(asked, ("10.0.0.1", "10.0.0.2", "10.0.0.3"), strict=True):
        done(address)
    stored.change("nobody.test", 1)
    asked[-1](None)
    assert [opened(stored, f"10.0.0.{last}", NOW_MS) for last in (1, 2, 3)] == [50, 50, 30]
