"""log.cleaner.io.max.bytes.per.second: the cleaner waits rather than go faster."""

from __future__ import annotations

import pytest

from wirekafka.server.background import clean_worker


class Time:
    """Advances only by `sleep`."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_processing_is_limited_to_the_configured_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(clean_worker, "time", time)
    pace = clean_worker.Pace(1000.0)
    for _ in range(5):
        pace(700)
    assert time.now_s == pytest.approx(103.5)
    clean_worker.Pace(float("inf"))(1 << 40)
    assert time.now_s == pytest.approx(103.5)
