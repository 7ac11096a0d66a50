"""`wirekafka snapshot` and `wirekafka branch`, of a node that runs in another process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_examples.live_broker import BrokerFailed, live_broker
from wirekafka.cli.main import main
from wirekafka.server.snapshots.running_node import running_node
from wirekafka.snapshot.manifest import MANIFEST


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


Wirekafka = Callable[..., Done]


@pytest.fixture
def wirekafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Wirekafka:
    """Runs a command in this process; `given` is what it reads."""

    def run(*words: str | Path, given: str = "") -> Done:
        (tmp_path / "given").write_text(given)
        with (tmp_path / "given").open() as stdin, pytest.raises(SystemExit) as exit:
            (tmp_path / "given").unlink()
            monkeypatch.setattr(sys, "stdin", stdin)
            main([str(word) for word in words])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Done(int(exit.value.code or 0), captured.out.decode(), captured.err.decode())

    return run


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


def test_a_snapshot_of_a_running_node_is_reported(tmp_path: Path, wirekafka: Wirekafka) -> None:
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


def test_an_incomplete_snapshot_does_not_start(tmp_path: Path, wirekafka: Wirekafka) -> None:
    with live_broker(tmp_path / "data"):
        pass
    wirekafka("snapshot", "create", tmp_path / "data", tmp_path / "copy")
    os.rename(tmp_path / "copy", tmp_path / "copy.incomplete")
    (tmp_path / "copy.incomplete" / "meta.properties").write_text("version=incomplete\n")
    with (
        pytest.raises(BrokerFailed, match="is an incomplete snapshot: remove it, and create it"),
        live_broker(tmp_path / "copy.incomplete"),
    ):
        pass


def test_snapshots_in_a_store_are_listed_verified_expired_and_restored(
    tmp_path: Path, wirekafka: Wirekafka
) -> None:
    data, url = tmp_path / "data", f"file://{tmp_path}/store"
    value = "x" * 100_000
    with live_broker(data) as bootstrap:
        for name in ("first", "second", "third"):
            wirekafka("topics", "create", name, "-b", bootstrap)
            produced = wirekafka("produce", name, "-b", bootstrap, given=f"{value}\n" * 2)
            assert produced.returncode == 0, produced.stderr
            made = wirekafka("snapshot", "create", data, url, "--name", name, "--json")
            assert made.returncode == 0, made.stderr
    # The first two topics are sent once; only the third one's records are new.
    assert json.loads(made.stdout)["sent_bytes"] < json.loads(made.stdout)["files_bytes"] - 300_000
    assert not (tmp_path / "data.sending").exists()
    listed = json.loads(wirekafka("snapshot", "list", url, "--json").stdout)
    assert [each["name"] for each in listed] == ["first", "second", "third"]
    assert wirekafka("snapshot", "verify", url).stdout == "3 snapshots are whole\n"
    expired = wirekafka("snapshot", "expire", url, "--keep", "2")
    assert expired.stdout == "first is deleted\n", expired.stderr
    assert wirekafka("snapshot", "verify", url).stdout == "2 snapshots are whole\n"
    restored = wirekafka("snapshot", "restore", url, tmp_path / "restored", "--at", "second")
    assert restored.returncode == 0, restored.stderr
    with live_broker(tmp_path / "restored") as bootstrap:
        topics = wirekafka("topics", "list", "-b", bootstrap).stdout
        assert "second" in topics and "third" not in topics
        consumed = wirekafka("consume", "second", "-b", bootstrap, "--from", "beginning", "-n", "2")
        assert consumed.stdout.count(value) == 2, consumed.stderr


def test_damage_in_a_store_is_found_before_it_is_restored(
    tmp_path: Path, wirekafka: Wirekafka
) -> None:
    data, url = tmp_path / "data", f"file://{tmp_path}/store"
    with live_broker(data):
        pass
    wirekafka("snapshot", "create", data, url, "--name", "only")
    [pack] = (tmp_path / "store" / "packs").iterdir()
    pack.write_bytes(b"?" + pack.read_bytes()[1:])
    verified = wirekafka("snapshot", "verify", url)
    assert verified.returncode == 1
    assert "is damaged" in verified.stdout
    restored = wirekafka("snapshot", "restore", url, tmp_path / "restored")
    assert restored.returncode == 1 and "is damaged" in restored.stderr
    pack.unlink()
    assert "is missing" in wirekafka("snapshot", "verify", url, "--sizes-only").stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data.log", "store"]


def test_snapshots_in_a_directory_are_listed_verified_expired_and_restored(
    tmp_path: Path, wirekafka: Wirekafka
) -> None:
    data, above = tmp_path / "data", tmp_path / "snapshots"
    above.mkdir()
    with live_broker(data):
        for name in ("one", "two"):
            wirekafka("snapshot", "create", data, above / name)
    assert wirekafka("snapshot", "verify", above).stdout == "2 snapshots are whole\n"
    times = [
        each["time"] for each in json.loads(wirekafka("snapshot", "list", above, "--json").stdout)
    ]
    restored = wirekafka("snapshot", "restore", above, tmp_path / "restored", "--at", times[0])
    assert "is the snapshot one" in restored.stdout, restored.stderr
    refused = wirekafka("snapshot", "restore", above, tmp_path / "other", "--at", "2020-01-01")
    assert refused.returncode == 1 and "there is no snapshot 2020-01-01" in refused.stderr
    assert wirekafka("snapshot", "expire", above, "--older-than", "0s").stdout == "one is deleted\n"
    assert [path.name for path in above.iterdir()] == ["two"]
    segment = next((above / "two" / "__cluster_metadata-0").glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    damaged = wirekafka("snapshot", "verify", above)
    assert damaged.returncode == 1 and "two: __cluster_metadata-0: checksum" in damaged.stdout
    with live_broker(tmp_path / "restored"):
        pass


def test_a_snapshot_that_a_node_uses_is_not_expired(tmp_path: Path, wirekafka: Wirekafka) -> None:
    data, above = tmp_path / "data", tmp_path / "snapshots"
    above.mkdir()
    with live_broker(data):
        for name in ("one", "two", "three"):
            wirekafka("snapshot", "create", data, above / name)
    with live_broker(above / "one"):
        expired = wirekafka("snapshot", "expire", above, "--keep", "1")
    assert expired.stdout == "one is kept: a node has used it\ntwo is deleted\n", expired.stderr
    assert sorted(path.name for path in above.iterdir()) == ["one", "one.log", "three"]


def test_staging_leaves_other_files_of_its_directory(tmp_path: Path, wirekafka: Wirekafka) -> None:
    data, staging = tmp_path / "data", tmp_path / "staging"
    (staging / "data.sending").mkdir(parents=True)
    (staging / "other").write_text("mine")
    with live_broker(data):
        pass
    words = ("snapshot", "create", data, f"file://{tmp_path}/store", "--staging", staging)
    refused = wirekafka(*words)
    assert refused.returncode == 1 and "data.sending exists" in refused.stderr
    (staging / "data.sending").rmdir()
    made = wirekafka(*words)
    assert made.returncode == 0, made.stderr
    assert [path.name for path in staging.iterdir()] == ["other"]
