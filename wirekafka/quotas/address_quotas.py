"""The limit on how many connections per second each IP address opens (KIP-612)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from wirekafka.quotas.rate import Rate, Windows

CONNECTIONS = "connection_creation_rate"
_MOST_ADDRESSES = 10_000

Resolve = Callable[[str, Callable[[str | None], None]], None]
"""Looks a host name up and calls back with its address, None if there is none."""


def unresolved(host: str, done: Callable[[str | None], None]) -> None:
    """A `Resolve` without names."""
    done(None)


def is_address(text: str) -> bool:
    """Whether this is an IP address, not a host name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


class _Host:
    """A quota of a host by name; its address is None until it is looked up."""

    def __init__(self, limit: float):
        self.limit = limit
        self.address: str | None = None


class AddressQuotas:
    """The quotas of IP addresses and the rates at which these connect.

    As in Kafka, a host name is looked up once, when its quota is set.
    """

    def __init__(self, windows: Windows, resolve: Resolve = unresolved):
        self._windows = windows
        self._resolve = resolve
        self._hosts: dict[str, _Host] = {}
        self._limits: dict[str | None, float] = {}
        """By address; None is the default."""
        self._rates: dict[str, Rate] = {}
        self._old_rates: dict[str, Rate] = {}
        """Not used since the last change of `_rates`."""
        self._keep_until_ms = 0

    def clear(self) -> None:
        """Remove all quotas."""
        self._limits.clear()
        self._hosts.clear()

    def change(self, address: str | None, limit: float | None) -> None:
        """Set the quota of an address or a host name, or the default; None removes it."""
        if address is None:
            self._set(None, limit)
            return
        try:
            name = str(ip_address(address))
        except ValueError:
            self._change_host(address, limit)
        else:
            self._set(name, limit)

    def _change_host(self, name: str, limit: float | None) -> None:
        known = self._hosts.pop(name, None)
        if known is not None and known.address is not None:
            self._set(known.address, None)
        if limit is not None:
            host = self._hosts[name] = _Host(limit)
            self._resolve(name, partial(self._found, name, host))

    def _found(self, name: str, host: _Host, address: str | None) -> None:
        if address is not None and self._hosts.get(name) is host:
            host.address = _normal(address)
            self._set(host.address, host.limit)

    def _set(self, name: str | None, limit: float | None) -> None:
        if limit is not None:
            self._limits[name] = limit
        else:
            self._limits.pop(name, None)

    def throttle_ms(self, address: str, now_ms: int) -> int:
        """Count a new connection; if its address exceeds its quota, uncount it and return the
        throttle time in ms, at most one window."""
        if not self._limits:
            return 0
        name = _normal(address)
        limit = self._limits.get(name, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._rates.get(name) or self._begun(name, limit, now_ms)
        if rate.limit != limit:
            rate.limit = limit
        throttle_ms = rate.record(1, now_ms)
        if throttle_ms:
            rate.take_back(1, now_ms)
        return throttle_ms

    def _begun(self, name: str, limit: float, now_ms: int) -> Rate:
        number, size_ms = self._windows
        if now_ms >= self._keep_until_ms or len(self._rates) >= _MOST_ADDRESSES:
            # Rates without a record in all of their windows are 0.
            self._old_rates = self._rates
            self._rates = {}
            self._keep_until_ms = now_ms + number * size_ms
        rate = self._old_rates.get(name)
        if rate is None:
            rate = Rate(self._windows, limit, size_ms)
        self._rates[name] = rate
        return rate


def _normal(address: str) -> str:
    """The usual spelling of an address; anything else unchanged."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address
