"""What a broker has done with the pushes of each client, in its metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.telemetry.sequences import INTERVAL_MS
from tests.telemetry.test_telemetry import KNOWN_ID, Stand
from wirekafka.log.checkpoints import uuid_text
from wirekafka.server.monitoring.client_instances import ClientInstanceCollector

PREFIX = "kafka_server_client_metrics"


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    found = Stand(tmp_path / "data")
    yield found
    found.node.stop()


def test_early_and_outdated_pushes_of_a_client_are_counted(stand: Stand) -> None:
    assert stand.configure(metrics="*", interval_ms=str(INTERVAL_MS)) == 0
    assert stand.client().play("push unknown, push, ask, ask") == [117, 89, 89, 89]
    collector = ClientInstanceCollector(stand.node.broker)
    for _ in collector.collect():
        pass
    text = "".join(part for table in collector.tables for part in table.texts())
    client = f'{{client_instance_id="{uuid_text(KNOWN_ID)}"}}'
    assert f"\n{PREFIX}_instance_count 1\n" in text
    assert f"\n{PREFIX}_unknown_subscription_request_count 1\n" in text
    assert f"\n{PREFIX}_throttle_count{client} 3\n" in text
    assert f"\n{PREFIX}_plugin_error_count{client} 0\n" in text
