"""Many deadlines in one heap."""

from collections.abc import Hashable

from wirekafka.runtime.timers import Timers


def taken(timers: Timers, now_ms: int) -> list[Hashable]:
    keys = []
    while (key := timers.next_due(now_ms)) is not None:
        keys.append(key)
        timers.cancel(key)
    return keys


def test_due_deadlines_are_returned_once_earliest_first() -> None:
    timers = Timers()
    for key, due_ms in (("b", 20), ("a", 10), ("c", 30)):
        timers.schedule(key, due_ms)
    assert taken(timers, 20) == ["a", "b"]
    assert taken(timers, 20) == []
    assert timers.deadline() == 30


def test_a_deadline_that_moved_back_fires_only_at_its_new_time() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    for due_ms in range(11, 1000):
        timers.schedule("a", due_ms)
    assert len(timers._heap) == 1, "a heartbeat must not leave anything behind"
    assert taken(timers, 998) == []
    assert timers.deadline() == 999
    assert taken(timers, 999) == ["a"]


def test_a_deadline_that_moved_forward_fires_once() -> None:
    timers = Timers()
    timers.schedule("a", 1000)
    timers.schedule("a", 10)
    assert timers.deadline() == 10
    assert taken(timers, 10) == ["a"]
    assert taken(timers, 2000) == []


def test_a_cancelled_deadline_does_not_fire() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    timers.cancel("a")
    timers.cancel("unknown")
    assert "a" not in timers
    assert taken(timers, 10) == []
    timers.schedule("a", 20)
    assert taken(timers, 20) == ["a"]


def test_a_key_stays_due_until_it_is_moved_or_cancelled() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    timers.schedule("b", 11)
    assert timers.next_due(9) is None
    assert timers.next_due(20) == timers.next_due(20) == "a"
    timers.schedule("a", 1010)
    assert timers.next_due(20) == "b"
    timers.cancel("b")
    assert timers.next_due(20) is None and timers.deadline() == 1010
    assert timers.next_due(1010) == "a"
