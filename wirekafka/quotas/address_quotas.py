"""The limit on how many connections per second each IP address opens (KIP-612)."""

from __future__ import annotations

from ipaddress import ip_address

from wirekafka.quotas.rate import Rate, Windows

CONNECTIONS = "connection_creation_rate"
_MOST_ADDRESSES = 10_000


class AddressQuotas:
    """The quotas of IP addresses and the rates at which these connect."""

    def __init__(self, windows: Windows):
        self._windows = windows
        self._limits: dict[str | None, float] = {}
        """By address; None is the default."""
        self._rates: dict[str, Rate] = {}
        self._old_rates: dict[str, Rate] = {}
        """Not used since the last change of `_rates`."""
        self._keep_until_ms = 0

    def clear(self) -> None:
        """Remove all quotas."""
        self._limits.clear()

    def change(self, address: str | None, limit: float | None) -> None:
        """Set the quota of an address, or the default; None removes it."""
        name = _normal(address) if address is not None else None
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
            self._old_rates, self._rates = self._rates, {}
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
