"""The quotas of users and client ids in force on a node, and each client's use of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from sys import getsizeof
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.quotas.address_quotas import CONNECTIONS, AddressQuotas, Resolve, unresolved
from wirekafka.quotas.precedence import CLIENT_ID, IP, USER, Applied, Entity, applied
from wirekafka.quotas.rate import Rate, Windows
from wirekafka.quotas.token_bucket import TokenBucket

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATION = "request_percentage", "controller_mutation_rate"
PERCENT_PER_NS = 100 / 1_000_000_000
"""`request_percentage` that a nanosecond of work in a second makes up."""
_AMPLE_PERCENT = 10.0
"""Room in a rate of `request_percentage`, 100 ms of work, that the requests of one read of a
connection do not use up: they are counted together, with fewer reads of the clock."""
_KEPT_MS = 3_600_000
_MOST_BYTES = 24 << 20
"""In bytes: the bound of the accounts in use, and again of the accounts before them."""
_ACCOUNT_BYTES = 2500
"""Of an account and its rates, without the names."""

_Key = tuple[str, str | None, str | None]


class Account:
    """The rates of one user and client id, some of them shared with other clients.

    A rate is None where no quota applies.
    """

    __slots__ = (
        "client_id",
        "fetch",
        "is_limited",
        "mutation",
        "produce",
        "request",
        "revision",
        "user",
    )

    def __init__(self, user: str, client_id: str):
        self.user = user
        self.client_id = client_id
        self.produce: Rate | None = None
        self.fetch: Rate | None = None
        self.request: Rate | None = None
        self.mutation: TokenBucket | None = None
        self.is_limited = False
        """Whether `produce` or `request` applies."""
        self.revision = -1
        """The state of the quotas that the rates are for."""

    def fetched(self, size_bytes: int, work_ns: int, now_ms: int) -> int:
        """Count a consumer's Fetch; returns the throttle time.

        If it is not 0, the response must be empty, and its bytes are not counted.
        """
        throttle_ms = self.worked(work_ns, now_ms)
        if self.fetch is not None:
            throttle_ms = max(throttle_ms, self.fetch.record(size_bytes, now_ms))
            if throttle_ms:
                self.fetch.take_back(size_bytes, now_ms)
        return throttle_ms

    def worked(self, work_ns: int, now_ms: int) -> int:
        """Count the work for any other request; returns the throttle time."""
        if self.request is None:
            return 0
        return self.request.add(work_ns * PERCENT_PER_NS, now_ms)


class Usage(NamedTuple):
    """One rate in use, its limit, and the clients that share it: None stands for all."""

    quota: str
    user: str | None
    client_id: str | None
    limit: float
    per_second: float
    throttled_ms: int
    """For how long one of the clients is still throttled."""


class ClientQuotas:
    """The enforced quotas of users and client ids, and the rates measured for them.

    `enforced` are the names of the quotas; other quotas are ignored.
    """

    @classmethod
    def of_broker(cls, config: BrokerConfig, resolve: Resolve = unresolved) -> ClientQuotas:
        """The quotas on bytes and work, before any is stored."""
        windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        return cls(windows, (PRODUCE, FETCH, REQUEST, CONNECTIONS), resolve)

    @classmethod
    def of_controller(cls, config: BrokerConfig) -> ClientQuotas:
        """The quotas on changes of topics, before any is stored."""
        size_ms = config.controller_quota_window_size_seconds * 1000
        return cls(Windows(config.controller_quota_window_num, size_ms), (MUTATION,))

    def __init__(self, windows: Windows, enforced: Container[str], resolve: Resolve = unresolved):
        self.addresses = AddressQuotas(windows, resolve)
        """The quotas of IP addresses, which are not part of the truth value."""
        self._windows = windows
        self._enforced = enforced
        self._quotas: dict[str, dict[Entity, float]] = {}
        self._accounts: dict[tuple[str, str], Account] = {}
        self._old_accounts: dict[tuple[str, str], Account] = {}
        """Not used since the last change of `_accounts`."""
        self._keep_until_ms = 0
        self._accounts_bytes = 0
        self._rates: WeakValueDictionary[_Key, Any] = WeakValueDictionary()
        """All rates, also of accounts that only a caller still refers to."""
        self._kept: tuple[dict[_Key, Any], dict[_Key, Any]] = {}, {}
        """The rates that were looked up since the last change of `_accounts`, and before it: a rate
        outlives the quotas that send its clients elsewhere for a while."""
        self.revision = 0
        """Counts the changes."""
        self.work_revision = -1
        """`revision` while any `request_percentage` is stored, for which work is measured."""

    def __bool__(self) -> bool:
        """Whether any quota of a client is stored."""
        return bool(self._quotas)

    @property
    def measures_work(self) -> bool:
        """Whether the work for requests has to be measured, for `request_percentage`."""
        return REQUEST in self._quotas

    def clear(self) -> None:
        """Remove all quotas; the use of clients is kept."""
        self._quotas.clear()
        self.addresses.clear()
        self.revision += 1
        self.work_revision = -1

    def change(self, entity: Entity, quota: str, limit: float | None) -> None:
        """Set a quota, or remove it with None."""
        entity = tuple(sorted(entity, key=lambda part: part[0]))
        if quota not in self._enforced:
            return
        if quota == CONNECTIONS:
            if entity[0][0] == IP:
                self.addresses.change(entity[0][1], limit)
            return
        limits = self._quotas.setdefault(quota, {})
        if limit is not None:
            limits[entity] = limit
        else:
            limits.pop(entity, None)
        if not limits:
            del self._quotas[quota]
        self.revision += 1
        self.work_revision = self.revision if self.measures_work else -1

    def account(self, user: str, client_id: str | None, now_ms: int) -> Account:
        """The account of a client."""
        key = user, client_id or ""
        account = self._accounts.get(key)
        if account is None:
            account = self._opened(key, now_ms)
        if account.revision != self.revision:
            self._revise(account)
        return account

    def usage(self, now_ms: int) -> Iterator[Usage]:
        """The rates of quotas on bytes and work."""
        for (quota, user, client_id), rate in sorted(self._rates.items(), key=_by_text):
            if isinstance(rate, Rate):
                throttled_ms = max(rate.throttled_until_ms - now_ms, 0)
                per_second = rate.per_second(now_ms)
                yield Usage(quota, user, client_id, rate.limit, per_second, throttled_ms)

    def _opened(self, key: tuple[str, str], now_ms: int) -> Account:
        size_bytes = _ACCOUNT_BYTES + getsizeof(key[0]) + getsizeof(key[1])
        self._accounts_bytes += size_bytes
        if now_ms >= self._keep_until_ms or self._accounts_bytes > _MOST_BYTES:
            # Accounts that were not used since the last time are forgotten.
            self._accounts_bytes = size_bytes
            self._old_accounts = self._accounts
            self._accounts = {}
            self._kept = {}, self._kept[0]
            self._keep_until_ms = now_ms + _KEPT_MS
        account = self._old_accounts.get(key)
        if account is None:
            account = Account(*key)
        self._accounts[key] = account
        return account

    def _revise(self, account: Account) -> None:
        account.revision = self.revision
        account.produce = self._rate(PRODUCE, account, Rate)
        account.fetch = self._rate(FETCH, account, Rate)
        account.request = self._rate(REQUEST, account, _bounded_rate)
        account.mutation = self._rate(MUTATION, account, TokenBucket)
        account.is_limited = account.produce is not None or account.request is not None

    def _rate(
        self, quota: str, account: Account, new: Callable[[Windows, float], Any]
    ) -> Any | None:
        limits = self._quotas.get(quota)
        found = applied(limits, account.user, account.client_id) if limits else None
        if found is None:
            return None
        key = _key(quota, found)
        rate = self._rates.get(key)
        if rate is None:
            rate = self._rates[key] = new(self._windows, found.limit)
        elif rate.limit != found.limit:
            rate.limit = found.limit
        self._kept[0][key] = rate
        return rate


def _bounded_rate(windows: Windows, limit: float) -> Rate:
    """A rate of `request_percentage`, which never throttles for longer than a window."""
    return Rate(windows, limit, windows.size_ms, _AMPLE_PERCENT)


def _key(quota: str, found: Applied) -> _Key:
    return quota, found.user, found.client_id


def _by_text(item: tuple[_Key, Any]) -> tuple[str, ...]:
    return tuple(part or "" for part in item[0])


assert CLIENT_ID < USER, "entities are in the order of their types"
