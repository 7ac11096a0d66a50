"""When a snapshot of the metadata is due."""

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.image import MetadataImage
from wirekafka.metadata.snapshots import Snapshots

HOUR_MS = 3_600_000


class Quorum:
    bytes_since_snapshot = 0
    written = 0

    failure = None

    def write_snapshot(self, records, codec):
        if self.failure is not None:
            raise self.failure
        self.written += 1
        self.bytes_since_snapshot = 0


@pytest.fixture
def quorum():
    return Quorum()


def due(quorum, grown_bytes, passed_ms, **settings):
    settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
    quorum.bytes_since_snapshot = grown_bytes
    return Snapshots(quorum, MetadataImage(), 0).write_if_due(
        BrokerConfig.of(settings), passed_ms)


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
def test_a_stop_spares_the_next_start_a_long_log(quorum, grown_bytes, written):
    quorum.bytes_since_snapshot = grown_bytes
    Snapshots(quorum, MetadataImage(), 0).write_at_stop()
    assert quorum.written == written


def test_a_snapshot_that_cannot_be_written_does_not_keep_a_node_from_stopping(quorum, caplog):
    quorum.bytes_since_snapshot, quorum.failure = 200_000, OSError("no space")
    Snapshots(quorum, MetadataImage(), 0).write_at_stop()
    assert "No snapshot of the metadata was written: no space" in caplog.text
