"""`wirekafka snapshot` and `wirekafka branch`, of a node that runs in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from spark_examples.live_broker import live_broker
from wirekafka.server.snapshots.running_node import running_node
from wirekafka.snapshot.manifest import MANIFEST


def wirekafka(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wirekafka", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_socket_is_for_the_owner_alone_and_goes_with_the_node(tmp_path: Path) -> None:
    with live_broker(tmp_path / "data"):
        socket = tmp_path / "data" / "snapshot.sock"
        assert socket.stat().st_mode & 0o777 == 0o600
        with running_node(str(tmp_path / "data")) as held:
            assert held is not None
            assert 0 < held.instant.held_us < 100_000
    assert not socket.exists()
    with running_node(str(tmp_path / "data")) as held:
        assert held is None


def test_a_snapshot_of_a_running_node_is_reported(tmp_path: Path) -> None:
    with live_broker(tmp_path / "data") as bootstrap:
        made = wirekafka("topics", "create", "orders", "--partitions", "3", "-b", bootstrap)
        assert made.returncode == 0, made.stderr
        shown = wirekafka("snapshot", "create", tmp_path / "data", tmp_path / "copy", "--json")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["logs"] == 4
        again = wirekafka("snapshot", "create", tmp_path / "data", tmp_path / "copy")
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr.strip().endswith("name a directory that does not exist yet")
    with live_broker(tmp_path / "copy") as bootstrap:
        assert "orders" in wirekafka("topics", "list", "-b", bootstrap).stdout
    assert (tmp_path / "copy" / MANIFEST).exists()


def test_an_incomplete_snapshot_does_not_start(tmp_path: Path) -> None:
    with live_broker(tmp_path / "data"):
        pass
    wirekafka("snapshot", "create", tmp_path / "data", tmp_path / "copy")
    os.rename(tmp_path / "copy", tmp_path / "copy.incomplete")
    (tmp_path / "copy.incomplete" / "meta.properties").write_text("version=incomplete\n")
    served = wirekafka("serve", "--data", tmp_path / "copy.incomplete")
    assert served.returncode == 1
    assert "is an incomplete snapshot: remove it, and create it again" in served.stderr
