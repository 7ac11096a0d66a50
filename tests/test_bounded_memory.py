"""What is remembered by names of clients stays small, and new names stay cheap."""

from __future__ import annotations

import time

from wirekafka.bounded_memory import Remembered


def test_a_full_store_forgets_the_oldest_in_little_time() -> None:
    store = Remembered[int, int](8 << 20)
    began_s = time.process_time()
    for number in range(200_000):
        store.keep(number, number)
    # Far more than it takes, and less than half of what one search of each oldest entry takes.
    assert time.process_time() - began_s < 3
    assert store.size_bytes <= 8 << 20
    kept = list(store)
    assert kept == list(range(kept[0], 200_000))
    assert len(kept) > 50_000
