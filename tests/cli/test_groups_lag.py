"""`wirekafka groups lag`, on a broker with metrics and on one without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.eventually import eventually
from tests.server.serving import Serving
from tests.server.test_serve import batch, create, fetch, produce


def _lag(serving: Serving, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "wirekafka", "groups", "lag", *words),
            *("--bootstrap-server", f"127.0.0.1:{serving.port}"),
        ],
        capture_output=True,
        text=True,
    )


def test_the_lag_of_a_reader_and_its_history_are_printed(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--metrics", "0") as serving, serving.client() as client:
        create(client, "t")
        produce(client, "t", batch(b"one", b"two"))
        fetch(client, "t")
        produce(client, "t", batch(b"three"))
        [row] = json.loads(_lag(serving, "--json").stdout)
        behind_s = row.pop("behind_s")
        assert behind_s >= 0 and row.pop("idle_s") >= 0
        assert row == {
            "kind": "reader",
            "name": row["name"],
            "topic": "t",
            "partition": 0,
            "position": 2,
            "end": 3,
            "lag": 1,
        }
        history = eventually(lambda: json.loads(_lag(serving, "--history", "--json").stdout))
        assert {sample["kind"] for sample in history} == {"reader"}
        assert "BEHIND_S" in _lag(serving).stdout.splitlines()[0]


def test_the_console_alone_is_enough(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--console", "0") as serving, serving.client() as client:
        create(client, "t")
        produce(client, "t", batch(b"one"))
        fetch(client, "t")
        [row] = json.loads(_lag(serving, "--json").stdout)
        assert (row["kind"], row["topic"], row["position"], row["lag"]) == ("reader", "t", 1, 0)


def test_a_broker_without_metrics_keeps_no_lag(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as serving:
        failed = _lag(serving)
        assert failed.returncode == 1
        assert "the broker keeps no lag: start it with --metrics or --console" in failed.stderr
