"""A broker without tables names the topics whose tables it does not write, once each."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from wirekafka.metadata.controller.configs import AlterConfigs, ConfigChange, ResourceChanges
from wirekafka.metadata.image.image import TOPIC
from wirekafka.server.background.table_notice import TableNotice

_MODE = "wirekafka.table.mode"


@pytest.mark.parametrize("url", ["", "lake"])
def test_a_topic_whose_table_is_not_written_is_named_once(
    url: str, tmp_path: Path, manual_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"wirekafka.tables.url": str(tmp_path / url)} if url else {}
    kafka = InProcessBroker(tmp_path / "data", manual_clock, **settings)
    caplog.set_level(logging.WARNING)
    notice = TableNotice(kafka.broker)
    kafka.create("plain")
    kafka.create("a", wirekafka_table_mode="off")
    kafka.create("b", wirekafka_table_mode="key_value")
    notice.notice_tables()
    kafka.create("c", wirekafka_table_mode="key_value")
    changes = ResourceChanges(TOPIC, "a", [ConfigChange(_MODE, 0, "key_value")])
    now(kafka.broker.controller.submit(AlterConfigs([changes])))
    notice.notice_tables()
    notice.notice_tables()
    named = [
        record.getMessage().removeprefix("No table is written for ").partition(":")[0]
        for record in caplog.records
    ]
    assert named == ([] if url else ["b", "a, c"])
    now(kafka.node.stop()) if not url else kafka.node.abort()
