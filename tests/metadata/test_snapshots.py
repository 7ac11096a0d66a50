"""When a snapshot of the metadata is due."""

from types import SimpleNamespace

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.metadata.image.snapshot_schedule import SnapshotSchedule

HOUR_MS = 3_600_000


class Quorum:
    bytes_since_snapshot = 0
    written = 0

    failure = None

    def __init__(self):
        self.cleaned = []

    def clean(self, now_ms):
        if self.failure is not None:
            raise self.failure
        self.cleaned.append(now_ms)

    def write_snapshot(self, records, codec, end_offset):
        assert end_offset == 7
        if self.failure is not None:
            raise self.failure
        self.written += 1
        self.bytes_since_snapshot = 0

    def begin_snapshot(self, records, codec, end_offset, done):
        try:
            self.write_snapshot(records, codec, end_offset)
        except OSError as error:
            done(error)
        else:
            done(None)


@pytest.fixture
def quorum():
    return Quorum()


def followed():
    return SimpleNamespace(image=MetadataImage(), end_offset=7)


def due(quorum, grown_bytes, passed_ms, **settings):
    settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
    quorum.bytes_since_snapshot = grown_bytes
    return SnapshotSchedule(quorum, followed(), 0).write_if_due(
        BrokerConfig.of(settings), passed_ms
    )


def test_a_log_that_grew_is_due_at_once(quorum):
    assert not due(quorum, 20 * 1024 * 1024 - 1, 1)
    assert due(quorum, 20 * 1024 * 1024, 1)
    assert due(quorum, 100, 1, metadata_log_max_record_bytes_between_snapshots=100)


def test_a_log_that_changed_is_due_after_an_hour(quorum):
    assert not due(quorum, 1, HOUR_MS - 1)
    assert due(quorum, 1, HOUR_MS)
    assert not due(quorum, 1, HOUR_MS, metadata_log_max_snapshot_interval_ms=0)


def test_a_log_that_did_not_change_is_never_due(quorum):
    assert not due(quorum, 0, 10 * HOUR_MS)
    assert quorum.written == 0


@pytest.mark.parametrize("grown_bytes, written", [(100_000, 0), (200_000, 1)])
def test_a_stop_writes_a_snapshot_of_a_long_log(quorum, grown_bytes, written):
    quorum.bytes_since_snapshot = grown_bytes
    SnapshotSchedule(quorum, followed(), 0).write_at_stop()
    assert quorum.written == written


def test_a_snapshot_that_cannot_be_written_does_not_keep_a_node_from_stopping(quorum, caplog):
    quorum.bytes_since_snapshot, quorum.failure = 200_000, OSError("no space")
    SnapshotSchedule(quorum, followed(), 0).write_at_stop()
    assert "Writing a metadata snapshot failed: no space" in caplog.text


def test_a_snapshot_that_cannot_be_written_is_tried_again_and_logged_once(quorum, caplog):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    quorum.bytes_since_snapshot, quorum.failure = 20 * 1024 * 1024, OSError("no space")
    for _ in range(3):
        assert schedule.write_if_due(BrokerConfig.of(), 1)
    assert caplog.text.count("Writing a metadata snapshot failed: no space") == 1
    quorum.failure = None
    assert schedule.write_if_due(BrokerConfig.of(), 1)
    assert quorum.written == 1


def test_there_is_one_snapshot_at_a_time(quorum):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    quorum.bytes_since_snapshot, ends = 20 * 1024 * 1024, []
    quorum.begin_snapshot = lambda records, codec, end_offset, done: ends.append(done)
    assert schedule.write_if_due(BrokerConfig.of(), 1)
    assert not schedule.write_if_due(BrokerConfig.of(), 1)
    ends[0](None)
    assert schedule.write_if_due(BrokerConfig.of(), 1)


def test_a_snapshot_that_could_not_even_begin_is_tried_again(quorum):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    quorum.bytes_since_snapshot, quorum.failure = 20 * 1024 * 1024, RuntimeError("no thread")
    with pytest.raises(RuntimeError, match="no thread"):
        schedule.write_if_due(BrokerConfig.of(), 1)
    quorum.failure = None
    assert schedule.write_if_due(BrokerConfig.of(), 1)
    assert quorum.written == 1


def test_what_is_beyond_the_retention_is_deleted_once_a_minute(quorum):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    for now_ms in (59_999, 60_000, 60_001, 119_999, 121_000):
        schedule.clean_if_due(now_ms)
    assert quorum.cleaned == [60_000, 121_000]


def test_snapshots_that_cannot_be_deleted_are_tried_again_a_minute_later(quorum, caplog):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    quorum.failure = OSError("read-only")
    schedule.clean_if_due(60_000)
    assert "Old metadata snapshots cannot be deleted; it is retried: read-only" in caplog.text
    quorum.failure = None
    schedule.clean_if_due(120_000)
    assert quorum.cleaned == [120_000]


def test_nothing_is_deleted_while_a_snapshot_is_being_written(quorum):
    schedule = SnapshotSchedule(quorum, followed(), 0)
    quorum.bytes_since_snapshot, ends = 20 * 1024 * 1024, []
    quorum.begin_snapshot = lambda records, codec, end_offset, done: ends.append(done)
    assert schedule.write_if_due(BrokerConfig.of(), 1)
    schedule.clean_if_due(60_000)
    ends[0](None)
    assert not quorum.cleaned
