"""`wirekafka export` and `wirekafka replay`, from the directories of a broker that runs and of one
that is gone."""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_examples.live_broker import live_broker
from tests.cli.conftest import Run
from tests.cli.test_records import read
from tests.directories import contents
from tests.eventually import eventually
from tests.translation.topic_world import topic_world
from wirekafka.cli import export
from wirekafka.schemas.framing import with_id


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kafka")
    with tarfile.open(contents.archive("4.4.0")) as archive:
        archive.extractall(path, filter="data")
    return path / "data"


def test_a_topic_becomes_a_parquet_file(run: Run, directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    outcome = run("export", str(directory), contents.EVENTS, str(path), "--headers")
    assert (outcome.status, outcome.err) == (0, f"15 records in {path}\n")
    table = pq.read_table(path)
    assert table.column_names[:2] == ["key", "value"] and table.column_names[-1] == "headers"
    assert table.column("value").to_pylist() == [value for _, _, value in contents.events()]
    assert [each.name for each in tmp_path.iterdir()] == ["events.parquet"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_keys_and_values_are_exported_decoded(
    run: Run, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}'
    path = tmp_path / f"orders.{suffix}"
    with topic_world(tmp_path) as world:
        monkeypatch.setenv("WIREKAFKA_SCHEMA_REGISTRY", world.fake_registry.url)
        id = world.register("orders-value", text)
        world.create("orders")
        world.produce("orders", [with_id(id, b"\x0a"), b"plain", None])
        words = ("--decode", "--to-log-end")
        outcome = run("export", str(tmp_path / "data"), "orders", str(path), *words)
    assert outcome.status == 0
    assert "offset 1: the value is shown as it is: it names no schema" in outcome.err
    if suffix == "jsonl":
        first, second, third = (json.loads(line) for line in path.read_text().splitlines())
        assert (first["value"], first["value_schema"]["name"]) == ({"n": 5}, "R")
        assert (second["value"], third["value"], first["key"]) == ("plain", None, "k")
    elif suffix == "csv":
        with path.open(newline="") as file:
            assert [row["value"] for row in csv.DictReader(file)] == ['{"n": 5}', "plain", ""]
    else:
        table = pq.read_table(path)
        assert table.column_names[-2:] == ["key_decoded", "value_decoded"]
        assert "headers" not in table.column_names
        assert table.column("value_decoded").to_pylist() == ['{"n": 5}', None, None]
        assert table.column("value").to_pylist()[1:] == [b"plain", None]


def test_a_part_by_time_and_offset_becomes_lines_of_json(
    run: Run, directory: Path, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    start = f"@{contents.events()[3][0]}"
    where = ("--from", start, "--until", "7", "--partition", "0")
    assert run("export", str(directory), contents.EVENTS, str(path), *where).status == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["offset"] for line in lines] == [3, 4, 5, 6]
    assert [line["key"] for line in lines] == ["key 3", "key 4", "key 5", "key 6"]


def test_what_is_not_committed_is_exported_on_request(
    run: Run, directory: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.csv"
    run("export", str(directory), contents.LEDGER, str(path))
    with path.open(newline="") as file:
        assert [row["value"].encode() for row in csv.DictReader(file)] == list(contents.COMMITTED)
    run("export", str(directory), contents.LEDGER, str(path), "--read-uncommitted", "--to-log-end")
    with path.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(contents.COMMITTED + contents.ABORTED)


def test_wrong_sources_are_named_in_one_line(run: Run, directory: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "x.csv")
    for words, message in (
        ((str(tmp_path / "none"), "t", path), "cannot be read"),
        ((str(directory), "none", path), "has no topic none"),
        ((str(directory), contents.EVENTS, path + ".xls"), "the format is chosen by"),
        ((str(directory), contents.EVENTS, path, "--from", "monday"), "no offset"),
        ((str(directory), contents.EVENTS, path, "--from", "2026-11-01"), "such as 2026-11-01T"),
        ((str(directory), contents.EVENTS, path, "--partition", "7"), "has no log events-7"),
        ((str(directory), contents.EVENTS, f"{path}/x.csv"), f"no directory {path}"),
        ((f"file://{tmp_path}/none", "t", path), f"{tmp_path}/none"),
        (("nowhere://bucket", "t", path), "nowhere://bucket"),
    ):
        outcome = run("export", *words)
        assert outcome.status == 1 and outcome.err.count("\n") == 1
        assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.csv"])
def test_an_export_that_fails_leaves_the_file_that_was_there(
    run: Run, directory: Path, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    [log] = copy.glob(f"{contents.EVENTS}-0/*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    path = outputs / name
    path.write_text("before")
    outcome = run("export", str(copy), contents.EVENTS, str(path))
    assert outcome.status == 1 and outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"wirekafka: {log}, position ")
    assert path.read_text() == "before" and list(outputs.iterdir()) == [path]
    assert run("export", str(copy), contents.EVENTS, str(path), "--skip-errors").status == 0
    assert path.read_bytes() != b"before" and list(outputs.iterdir()) == [path]


def test_an_export_that_is_interrupted_leaves_no_file(
    run: Run, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[pa.RecordBatch] = []

    def interrupt(batch: pa.RecordBatch) -> None:
        interrupted.append(batch)
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "records", interrupt)
    assert run("export", str(directory), contents.EVENTS, str(tmp_path / "x.csv")).status == 130
    assert len(interrupted) == 1 and list(tmp_path.iterdir()) == []


def test_the_directory_of_a_running_broker_is_exported(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    data = tmp_path / "data"
    with live_broker(data, "replica.high.watermark.checkpoint.interval.ms=50") as address:
        produced = "".join(f"{number}\n" for number in range(50))
        assert run("produce", "t", "--bootstrap-server", address, given=produced).status == 0

        def is_complete() -> bool:
            return run("export", str(data), "t", str(path)).err == f"50 records in {path}\n"

        eventually(is_complete)
    with path.open(newline="") as file:
        assert [row["value"] for row in csv.DictReader(file)] == produced.split()


def test_records_are_replayed_with_their_gaps(run: Run, directory: Path) -> None:
    run("topics", "create", "again", "--partitions", "1")
    began = time.monotonic()
    outcome = run(
        *("replay", str(directory), contents.EVENTS, "--to", _bootstrap(), "--topic", "again"),
        *("--speed", "20x", "--until", "11"),
    )
    assert (outcome.status, outcome.err) == (0, "11 records to again\n")
    # There were ten seconds between the first and the last.
    assert time.monotonic() - began >= 0.5
    found = read(run, "again")
    assert [(each["timestamp"], each["key"]) for each in found] == [
        (timestamp, key.decode()) for timestamp, key, _ in contents.events()[:11]
    ]


def _bootstrap() -> str:
    import os

    return os.environ["WIREKAFKA_BOOTSTRAP"]
