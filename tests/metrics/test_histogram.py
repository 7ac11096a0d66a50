"""Percentiles of the last minutes, from histograms with logarithmic buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirekafka.metrics.histogram import Histogram, bucket_of, middle_of, quantiles

values = st.integers(min_value=0, max_value=1 << 50)


@given(value=values)
def test_a_bucket_is_at_most_a_thirtieth_off(value: int) -> None:
    assert abs(middle_of(bucket_of(value)) - value) <= value / 30


@given(one=values, other=values)
def test_larger_values_are_in_larger_buckets(one: int, other: int) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


@given(found=st.lists(values, min_size=1, max_size=200))
def test_percentiles_are_those_of_the_sorted_values(found: list[int]) -> None:
    histogram = Histogram()
    for value in found:
        histogram.record(value)
    for name, quantile in quantiles([histogram], ("0.50", "0.99")).items():
        rank = max(-(-int(float(name) * 100) * len(found) // 100), 1)
        exact = sorted(found)[rank - 1]
        assert abs(quantile - exact) <= exact / 30
    assert histogram.count == len(found)


def test_percentiles_are_those_of_all_histograms_and_of_zeros() -> None:
    slow, fast = Histogram(), Histogram()
    slow.record(1000)
    fast.record(10)
    assert quantiles([slow, fast], ("0.50",))["0.50"] == 10
    assert quantiles([slow, fast], ("0.50",), zeros=3)["0.50"] == 0


def test_a_value_can_stand_for_several() -> None:
    sampled, every = Histogram(), Histogram()
    for value in (10, 20, 20, 30):
        sampled.record(value, 8)
        for _ in range(8):
            every.record(value)
    assert quantiles([sampled]) == quantiles([every])
    assert sampled.count == every.count == 32


def test_values_are_forgotten_after_five_windows_but_stay_counted() -> None:
    histogram = Histogram()
    histogram.record(31)
    for _ in range(4):
        histogram.rotate()
        assert quantiles([histogram], ("0.99",))["0.99"] == 31
    histogram.rotate()
    assert quantiles([histogram], ("0.99",))["0.99"] == 0
    assert histogram.recent_mean() == 0
    assert histogram.count == 1
