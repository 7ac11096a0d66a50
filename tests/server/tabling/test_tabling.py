"""The worker of tables gets what is led here, and is restarted and stopped with the broker."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from pathlib import Path

import pytest

from tests.eventually import eventually_async
from tests.server.tabling.stand import Stand, report_of, run
from wirekafka.config.own import RegistryAccess
from wirekafka.metrics.table_status import DeletableTable, DeletionMark, TableState, TableStatus
from wirekafka.server.tiering.settings import LOCAL_CLASS


def test_no_worker_runs_before_a_topic_is_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("plain", mode="off")
        for _ in range(10):
            stand.clock.advance(250)
            await asyncio.sleep(0)
        assert not stand.tabling.worker.is_running
        stand.create("orders")
        await stand.until(lambda: stand.worker.processes())

    run(tmp_path, monkeypatch, test)


def test_a_worker_is_sent_the_settings_first_and_then_what_is_led_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", 2, write="upsert", target_lag_ms="5")
        stand.append("orders", 3)
        message = await stand.until(lambda: stand.last)
        assert stand.worker.inputs()[0] == {
            "node": 1,
            "url": f"file://{tmp_path}/lake",
            "namespace": "lake",
            "catalog": {"name": "wirekafka", "type": "rest"},
            "directories": [f"{tmp_path}/data"],
            "tier": None,
            "rate_bytes": 5,
            "registry": None,
        }
        options = {
            "mode": "key_value",
            "write": "upsert",
            "invalid_record_action": "dlq_table",
            "partition_spec": "(hour(redpanda.timestamp))",
            "target_lag_ms": 5,
            "hold": False,
            "delete": False,
        }
        partitions = {"0": [0, 3, 0], "1": [0, 0, 0]}
        entry = {"topic": "orders", "id": id, "options": options, "partitions": partitions}
        assert message == {"topics": [entry], "deleted": []}

    run(
        tmp_path,
        monkeypatch,
        test,
        **{
            "wirekafka.tables.namespace": "lake",
            "wirekafka.tables.catalog.type": "rest",
            "wirekafka.tables.rate.bytes": "5",
        },
    )


def test_a_worker_is_sent_changes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        await stand.until(lambda: stand.last)
        sent = len(stand.worker.inputs())
        for _ in range(20):
            stand.clock.advance(250)
        stand.append("orders")
        stand.append("orders")
        stand.kafka.partition("orders").delete_records(1)
        message = await stand.until(lambda: len(stand.worker.inputs()) > sent and stand.last)
        assert message["topics"][0]["partitions"] == {"0": [1, 2, 0]}
        assert len(stand.worker.inputs()) == sent + 1

    run(tmp_path, monkeypatch, test)


def test_each_worker_is_sent_once_which_tables_were_deleted_with_their_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        old = stand.create("orders", delete="true")
        stand.create("kept")
        await stand.until(lambda: stand.last)
        stand.delete("kept")
        stand.delete("orders")
        new = stand.create("orders")
        message = await stand.until(lambda: (found := stand.last) and found["deleted"] and found)
        assert message["deleted"] == [["orders", old]]
        assert [each["id"] for each in message["topics"]] == [new]
        stand.append("orders")
        await stand.until(lambda: stand.last["deleted"] == [])
        stand.worker.report("exit 1")
        await stand.until(lambda: not stand.tabling.worker.is_running, every_ms=0)
        stand.worker.report()
        await stand.until(lambda: len(stand.worker.processes()) == 2 and stand.last)
        assert stand.last["deleted"] == [["orders", old]]

    run(tmp_path, monkeypatch, test)


def test_tables_left_by_an_earlier_process_are_dropped_if_their_topics_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders", delete="true")
        message = await stand.until(lambda: stand.last)
        broker = stand.kafka.broker
        mark = message["topics"][0]["deletion_mark"]
        assert mark == f"{broker.cluster_id}@{broker.metadata_offset}"

        def table(topic: str, topic_id: str, mark: str) -> dict[str, object]:
            return DeletableTable(topic, topic_id, mark).to_json()

        later = DeletionMark(broker.cluster_id, broker.metadata_offset + 1)
        stand.worker.report(
            table("orders", id, mark),
            table("gone", "ZGVsZXRlZC10b3BpYy1pZA", mark),
            table("foreign", "b3RoZXItY2x1c3RlcnMtaWQ", f"other@{broker.metadata_offset}"),
            table("newer", "bmV3ZXItdGhhbi1tZXRhZGE", str(later)),
            table("garbled", "Z2FyYmxlZC1tYXJrLW9mLWl", "what"),
        )
        message = await stand.until(lambda: (found := stand.last) and found["deleted"] and found)
        assert message["deleted"] == [["gone", "ZGVsZXRlZC10b3BpYy1pZA"]]
        stand.create("another", mode="off")  # The metadata have come so far now.
        message = await stand.until(
            lambda: stand.last["deleted"] != message["deleted"] and stand.last
        )
        assert message["deleted"] == [["newer", "bmV3ZXItdGhhbi1tZXRhZGE"]]

    run(tmp_path, monkeypatch, test)


def test_a_worker_looks_for_tables_of_deleted_topics_where_there_is_a_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        assert await stand.until(lambda: stand.last) == {"topics": [], "deleted": []}

    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").touch()
    run(tmp_path, monkeypatch, test)


def test_a_mode_that_is_turned_off_takes_the_topic_from_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        await stand.until(lambda: (found := stand.last) and found["topics"])
        stand.alter("orders", mode="off")
        await stand.until(lambda: stand.last == {"topics": [], "deleted": []})

    run(tmp_path, monkeypatch, test)


def test_a_worker_that_dies_is_restarted_and_sent_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        first = await stand.until(lambda: stand.last)
        stand.worker.report("exit 3")
        await eventually_async(lambda: not stand.tabling.worker.is_running)
        stand.worker.report()
        await stand.until(lambda: len(stand.worker.processes()) == 2)
        assert await stand.until(lambda: stand.last) == first

    run(tmp_path, monkeypatch, test)
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == [
        "The worker of tables has ended with exit status 3 (it is broken); restart in 0.5 s"
    ]


def test_a_worker_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(stand: Stand) -> None:
        command = stand.worker.command
        path, command[0] = command[0], str(tmp_path / "nothing")
        stand.create("orders")
        await stand.until(lambda: stand.tabling.worker.failures == 2)
        command[0] = path
        await stand.until(lambda: stand.last, every_ms=1_000)

    run(tmp_path, monkeypatch, test)
    assert re.search("cannot be started: .*; restart in 1.0 s", caplog.text)


def test_a_registry_that_is_known_later_replaces_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        await stand.until(lambda: stand.last)
        stand.kafka.node.validate_by(RegistryAccess("http://127.0.0.1:8081", "admin", "secret"))
        await stand.until(lambda: len(stand.worker.processes()) == 2 and stand.last)
        assert stand.worker.inputs()[0]["registry"] == {
            "url": "http://127.0.0.1:8081",
            "user": "admin",
            "password": "secret",
            "certificate": None,
        }

    run(tmp_path, monkeypatch, test)
    assert "worker" not in caplog.text


def test_a_clean_stop_lets_the_worker_end_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        await stand.until(lambda: stand.last)
        [process] = stand.worker.processes()
        await stand.tabling.stop()
        assert (stand.worker.directory / f"ended-{process}").exists()
        assert not _exists(process)

    run(tmp_path, monkeypatch, test)


def test_a_worker_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wirekafka.server.tabling.worker_process._STOP_S", 0.2)

    async def test(stand: Stand) -> None:
        id = stand.create("orders")
        await stand.until(lambda: stand.last)
        stand.worker.report("stay", report_of("orders", id, {}))
        await stand.until(lambda: stand.tabling.reports)
        [process] = stand.worker.processes()
        await stand.tabling.stop()
        assert not _exists(process)

    run(tmp_path, monkeypatch, test)
    assert "did not end within" in caplog.text


def test_an_aborted_broker_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(stand: Stand) -> None:
        stand.create("orders")
        await stand.until(lambda: stand.last)
        [process] = stand.worker.processes()
        stand.tabling.abort()
        await eventually_async(lambda: not _exists(process))

    run(tmp_path, monkeypatch, test)


def test_a_state_of_a_table_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test(stand: Stand) -> None:
        id = stand.create("orders")
        await stand.until(lambda: stand.last)
        running = report_of("orders", id, {0: 1})
        paused = {**running, "state": "paused", "error": "set a schema"}
        late = {**running, "state": "retrying", "error": "the catalog does not answer"}
        stand.worker.report(running, late, late, paused, paused, running, {**running, "rows": 77})
        await stand.until(lambda: (found := stand.tabling.reports) and found["orders"].rows == 77)

    run(tmp_path, monkeypatch, test)
    assert [each.getMessage() for each in caplog.records if "table of" in each.getMessage()] == [
        "The table of orders is tried again: the catalog does not answer",
        "The table of orders is paused: set a schema",
        "The table of orders is written again",
    ]


@pytest.mark.parametrize("kind", ["class", "url"])
def test_a_tiered_topic_is_written_only_if_the_worker_can_read_the_tier(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = {
        "class": {
            "remote.log.storage.manager.class.name": LOCAL_CLASS,
            "rsm.config.dir": str(tmp_path / "tier"),
        },
        "url": {"wirekafka.tier": f"file://{tmp_path}/tier"},
    }
    reason = "records in tiered storage are read only if the broker has it by wirekafka.tier"

    async def test(stand: Stand) -> None:
        stand.create("tiered", of_log_remote_storage_enable="true")
        stand.create("plain")
        message = await stand.until(lambda: stand.last)
        sent = {each["topic"] for each in message["topics"]}
        if kind == "url":
            assert sent == {"plain", "tiered"} and stand.tabling.reports == {}
        else:
            assert sent == {"plain"}
            report = stand.tabling.reports["tiered"]
            assert (report.state, report.error) == ("paused", reason)
            assert caplog.text.count(f"The table of tiered is paused: {reason}") == 1

    enabled = {"remote.log.storage.system.enable": "true"}
    (tmp_path / "tier").mkdir()
    run(tmp_path, monkeypatch, test, **enabled, **place[kind])


def test_output_that_is_no_report_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(stand: Stand) -> None:
        id = stand.create("orders")
        await stand.until(lambda: stand.last)
        stand.worker.report("a library prints", "[]", "7", report_of("orders", id, {0: 1}))
        await stand.until(lambda: stand.tabling.reports)

    run(tmp_path, monkeypatch, test)
    assert caplog.text.count("is no report") == 1


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_worker_and_broker_read_and_write_the_same_status_line() -> None:
    status = TableStatus(
        topic="orders",
        topic_id="hxxkYO_7TNO5bVx-HCcJLA",
        state=TableState.PAUSED,
        error="no such subject",
        ends={0: 3, 11: 0},
        rows=2,
        dead_letters=1,
        commit_ms=5,
    )
    for written in (status, TableStatus(topic="orders", topic_id="id")):
        assert TableStatus.from_json(json.loads(json.dumps(written.to_json()))) == written
    newer = {**status.to_json(), "more": "of a newer version"}
    assert TableStatus.from_json(newer) == status
