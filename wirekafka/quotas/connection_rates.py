"""The limits on how many connections per second a broker and its listeners accept (KIP-612)."""

from __future__ import annotations

from wirekafka.quotas.rate import Rate, Windows


class ConnectionRates:
    """The rates at which the listeners of one broker accept connections.

    All attempts are counted, also while there is no limit, so that a limit that is set later covers
    the attempts of the last windows.
    """

    def __init__(self, windows: Windows):
        self._windows = windows
        self._rates: dict[str | None, Rate] = {}
        """By listener; None is the rate of all listeners without the listener for other brokers."""

    def count(self, listener: str | None, limit: float, now_ms: int) -> int:
        """Count a connection; returns for how many ms it must wait, at most one window."""
        rate = self._rates.get(listener)
        if rate is None:
            rate = Rate(self._windows, limit, self._windows.size_ms)
            self._rates[listener] = rate
        elif rate.limit != limit:
            rate.limit = limit
        return rate.record(1, now_ms)

    def uncount(self, listener: str | None, now_ms: int) -> None:
        """Take back the count of a connection that is not accepted after all."""
        self._rates[listener].take_back(1, now_ms)
