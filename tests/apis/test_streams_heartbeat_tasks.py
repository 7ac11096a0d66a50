"""StreamsGroupHeartbeat: a member that joins lists its tasks, of which it has none yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.errors import Error
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest

_LISTS = {"active_tasks": "Active", "standby_tasks": "Standby", "warmup_tasks": "Warmup"}


@pytest.mark.parametrize("missing", _LISTS)
def test_a_member_that_joins_without_a_list_of_tasks_is_refused(
    tmp_path: Path, missing: str
) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        process_id="p",
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[]),
        **{name: None if name == missing else [] for name in _LISTS},
    )
    answer = kafka.call(request, 1)
    kafka.stop()
    assert answer.error_code == Error.INVALID_REQUEST
    assert answer.error_message == f"{_LISTS[missing]}Tasks must be empty when (re-)joining."
