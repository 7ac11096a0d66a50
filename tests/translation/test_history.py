"""Leader epochs show whether a table's rows are of the log that is here."""

from __future__ import annotations

from wirekafka.log.epochs import EpochEntry
from wirekafka.translation.history import divergence, epoch_at

EPOCHS = [EpochEntry(0, 0), EpochEntry(3, 100), EpochEntry(4, 150)]


def test_the_epoch_of_a_record_is_the_last_one_that_began_before_it() -> None:
    assert [epoch_at(EPOCHS, offset) for offset in (0, 99, 100, 149, 150, 9_999)] == [
        *(0, 0, 3, 3, 4, 4)
    ]
    assert epoch_at([], 5) == -1
    assert epoch_at([EpochEntry(3, 100)], 99) == -1


def test_a_log_that_went_on_has_not_diverged() -> None:
    assert divergence(EPOCHS, 0, 100, 0) is None
    assert divergence(EPOCHS, 0, 149, 3) is None
    assert divergence(EPOCHS, 0, 200, 4) is None


def test_a_log_that_was_truncated_and_written_again_has_diverged() -> None:
    assert divergence(EPOCHS, 0, 120, 0) == 100
    assert divergence(EPOCHS, 0, 180, 3) == 150


def test_rows_below_the_start_of_the_log_cannot_be_compared() -> None:
    assert divergence([EpochEntry(4, 150)], 150, 150, 0) is None


def test_a_log_whose_epochs_are_unknown_has_not_diverged() -> None:
    assert divergence([], 0, 120, 0) is None
    assert divergence(EPOCHS, 0, 120, -1) is None


def test_a_mark_beyond_the_log_is_no_divergence_of_epochs() -> None:
    assert divergence(EPOCHS, 0, 500, 6) is None
