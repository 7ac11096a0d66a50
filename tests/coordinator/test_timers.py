"""Many deadlines in one heap."""

from wirekafka.coordinator.timers import Timers


def test_what_is_due_comes_earliest_first_and_once() -> None:
    timers = Timers()
    for key, due_ms in (("b", 20), ("a", 10), ("c", 30)):
        timers.schedule(key, due_ms)
    assert list(timers.take_due(20)) == ["a", "b"]
    assert list(timers.take_due(20)) == []
    assert timers.deadline() == 30


def test_a_deadline_that_moved_back_is_met_at_its_new_time_only() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    for due_ms in range(11, 1000):
        timers.schedule("a", due_ms)
    assert len(timers._heap) == 1, "a heartbeat must not leave anything behind"
    assert list(timers.take_due(998)) == []
    assert timers.deadline() == 999
    assert list(timers.take_due(999)) == ["a"]


def test_a_deadline_that_moved_forward_is_met_once() -> None:
    timers = Timers()
    timers.schedule("a", 1000)
    timers.schedule("a", 10)
    assert timers.deadline() == 10
    assert list(timers.take_due(10)) == ["a"]
    assert list(timers.take_due(2000)) == []


def test_a_cancelled_deadline_is_not_met() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    timers.cancel("a")
    timers.cancel("unknown")
    assert "a" not in timers
    assert list(timers.take_due(10)) == []
    timers.schedule("a", 20)
    assert list(timers.take_due(20)) == ["a"]


def test_what_falls_due_while_taking_is_taken_too() -> None:
    timers = Timers()
    timers.schedule("a", 10)
    taken = []
    for key in timers.take_due(10):
        taken.append(key)
        if key == "a":
            timers.schedule("b", 10)
            timers.schedule("c", 11)
    assert taken == ["a", "b"]
