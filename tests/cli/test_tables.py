"""`wirekafka tables`: the state of tables, their comparison with the log, and a new beginning."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io import load_file_io

from tests.cli.conftest import Run
from tests.registry.fake_registry import fake_registry
from wirekafka.client.client import Client
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metrics.table_status import TableState, TableStatus
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.translation.messages import LeaderRange
from wirekafka.translation.settings import TableSettings
from wirekafka.translation.status_files import write_statuses
from wirekafka.translation.topic_files import TopicFiles
from wirekafka.translation.translator import TopicTranslator

OPTIONS = {
    "mode": "key_value",
    "write": "append",
    "invalid_record_action": "dlq_table",
    "partition_spec": "()",
    "target_lag_ms": 60_000,
    "hold": False,
    "delete": False,
}
NO_REGISTRY: SchemaRegistry | None = None
EQUAL = "The table equals the log.\n"


class TranslatedTopic:
    """A topic of the broker, and its table under a directory."""

    def __init__(self, run: Run, bootstrap: str, data: Path, name: str, path: Path) -> None:
        self.options, self.registry = dict(OPTIONS), NO_REGISTRY
        self._run, self._bootstrap, self._data, self.name, self._path = (
            *(run, bootstrap, data),
            *(name, path),
        )
        self.url = str(path)
        with Client(bootstrap) as client:
            self.id = uuid_text(bytes(client.topic(name).topic_id))

    @property
    def catalog(self) -> Catalog:
        return open_catalog(self.url)

    def produce(self, *values: str) -> None:
        given = "".join(f"{value}\n" for value in values)
        assert self._run("produce", self.name, "--partition", "1", given=given).status == 0

    def translate(self) -> None:
        """Commit what the topic has now."""
        with Client(self._bootstrap) as client:
            partitions = [(self.name, index) for index in range(3)]
            ends = {index: end for (_, index), end in client.offsets(partitions, -1).items()}
        files = TopicFiles([str(self._data)], {(self.name, each): ends[each] for each in ends})
        translator = TopicTranslator(
            self.name,
            self.id,
            TableSettings.of(self.options),
            files=files,
            catalog=self.catalog,
            namespace="redpanda",
            registry=self.registry,
        )
        translator.translate({index: LeaderRange(0, end, 0) for index, end in ends.items()})
        files.close()

    def call(self, command: str, *words: str) -> str:
        """The output of `wirekafka tables`, which has to succeed."""
        outcome = self._run("tables", command, self.name, "--tables", self.url, *words)
        assert outcome.status == 0, outcome.err
        return outcome.out


@pytest.fixture
def translated(
    run: Run, bootstrap: str, data_directory: Path, topic: str, tmp_path: Path
) -> TranslatedTopic:
    made = TranslatedTopic(run, bootstrap, data_directory, topic, tmp_path / "tables")
    made.produce("a", "b", "c")
    made.translate()
    return made


def test_a_table_is_compared_with_the_brokers_and_with_their_files(
    translated: TranslatedTopic, data_directory: Path
) -> None:
    for words in ((), ("--data", str(data_directory))):
        printed = translated.call("verify", *words)
        assert printed.endswith(EQUAL)
        assert ["1", "0", "3", "3", "3", "0", "0", "0", "0", "0"] in map(
            str.split, printed.splitlines()
        )
    report = json.loads(translated.call("verify", "--json"))
    assert report["equal"] is True
    assert sum(each["records"] for each in report["partitions"]) == 3


def test_typed_columns_are_compared_with_a_registry(
    run: Run, bootstrap: str, data_directory: Path, topic: str, tmp_path: Path
) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}'
    made = TranslatedTopic(run, bootstrap, data_directory, topic, tmp_path / "tables")
    with fake_registry() as registry:
        made.registry = SchemaRegistry(registry.url)
        made.registry.register(f"{topic}-value", text)
        made.options = {**OPTIONS, "mode": "value_schema_latest"}
        mode = "wirekafka.table.mode=value_schema_latest"
        assert run("configs", "alter", "topic", topic, "--set", mode).status == 0
        made.produce("\x02a", "\x02b")
        made.translate()
        words = ("--schema-registry", registry.url)
        assert made.call("verify", *words).endswith(EQUAL)
        table = made.catalog.load_table(("redpanda", topic))
        rows = table.scan(row_filter="n == 'b'").to_arrow()
        other = pa.array(["other"], rows.schema.field("n").type)
        table.overwrite(rows.set_column(1, "n", other), "n == 'b'")
        assert made.call("verify").endswith(EQUAL), "values are compared with a registry only"
        outcome = run("tables", "verify", topic, "--tables", made.url, *words)
    assert outcome.status == 1
    assert f"{topic}: partition 1, offset 1: changed: n" in outcome.out


def test_brokers_say_how_a_table_is_written_that_is_compared_with_files(
    run: Run, translated: TranslatedTopic, data_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = translated.catalog.load_table(("redpanda", translated.name))
    table.delete(EqualTo("value", value=b"b"))
    words = ("tables", "verify", translated.name, "--tables", translated.url)
    on_files = (*words, "--data", str(data_directory))
    assert run(*on_files).status == 1
    change = ("configs", "alter", "topic", translated.name, "--set")
    assert run(*change, "wirekafka.table.invalid.record.action=drop").status == 0
    assert "missing" not in run(*on_files).out
    monkeypatch.delenv("WIREKAFKA_BOOTSTRAP")
    alone = run(*on_files)
    assert alone.status == 1 and "unless --compacted or --upsert is given" in alone.err


def test_a_row_that_is_missing_and_one_that_is_changed_are_named(
    run: Run, translated: TranslatedTopic, data_directory: Path
) -> None:
    table = translated.catalog.load_table(("redpanda", translated.name))
    rows = table.scan().to_arrow()
    table.delete(EqualTo("value", value=b"b"))
    changed = rows.filter(pc.equal(rows.column("value"), b"c"))
    value = pa.array([b"other"], rows.column("value").type)
    table.overwrite(changed.set_column(1, "value", value), EqualTo("value", value=b"c"))
    words = ("tables", "verify", translated.name, "--tables", translated.url)
    for place in ((), ("--data", str(data_directory))):
        outcome = run(*words, *place)
        assert (outcome.status, outcome.err) == (1, "")
        assert outcome.out.splitlines()[-3:] == [
            f"{translated.name}: partition 1, offset 1: missing",
            f"{translated.name}: partition 1, offset 2: changed: value",
            "The table differs from the log: 1 missing, 1 changed.",
        ]
    found = json.loads(run(*words, "--json").out)
    assert found["counts"] == {"missing": 1, "changed": 1}
    assert [each["offset"] for each in found["differences"]] == [1, 2]


def test_the_table_of_a_deleted_topic_of_the_same_name_is_recognised(
    run: Run, translated: TranslatedTopic
) -> None:
    assert run("topics", "delete", translated.name).status == 0
    assert run("topics", "create", translated.name, "--partitions", "3").status == 0
    outcome = run("tables", "verify", translated.name, "--tables", translated.url)
    assert outcome.status == 1
    assert f"the table is of the topic with id {translated.id}" in outcome.err
    [line] = json.loads(run("tables", "status", "--tables", translated.url, "--json").out)
    assert (line["topic_id"], line["lag"]) == (translated.id, None)


def test_the_status_of_tables_has_lag_size_and_state(
    run: Run, translated: TranslatedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = TableStatus(
        topic=translated.name,
        topic_id=translated.id,
        state=TableState.PAUSED,
        error="the schema is gone",
    )
    url = translated.catalog.properties["warehouse"]
    write_statuses(load_file_io(location=url), url, 3, 1_000, [status])
    (Path(translated.url) / "wirekafka-status" / "node-4.json").write_text("{}")
    translated.produce("d", "e")
    [line] = json.loads(run("tables", "status", "--tables", translated.url, "--json").out)
    assert (line["rows"], line["lag"], line["dead_letters"], line["files"]) == (3, 2, 0, 1)
    assert 0 <= line["behind_ms"] < 600_000
    assert line["partitions"][1] == {"partition": 1, "mark": 3, "start": 0, "end": 5, "lag": 2}
    assert (line["state"], line["error"], line["node"]) == ("paused", "the schema is gone", 3)
    printed = translated.call("status")
    assert f"{translated.name}: the schema is gone" in printed.splitlines()
    assert "paused" in printed and "PARTITION" in printed
    monkeypatch.delenv("WIREKAFKA_BOOTSTRAP")
    line = json.loads(translated.call("status", "--json"))
    assert (line["mode"], line["lag"], line["behind_ms"]) == ("key_value", None, None)
    translated.translate()
    assert json.loads(translated.call("status", "--json"))["rows"] == 5


def test_a_rebuilt_table_is_kept_under_another_name(
    run: Run, translated: TranslatedTopic, data_directory: Path
) -> None:
    words = ("tables", "rebuild", translated.name, "--tables", translated.url)
    refused = run(*words, given="n\n")
    assert refused.status == 1 and "nothing was changed" in refused.err
    assert f"redpanda.{translated.name} has 3 rows" in refused.err
    for number in (1, 2):
        assert run(*words, "--yes").status == 0
        names = [name for _, name in translated.catalog.list_tables("redpanda")]
        assert f"{translated.name}~old-{number}" in names and translated.name not in names
        assert run(*words, "--yes").err == (
            f"wirekafka: there is no table redpanda.{translated.name}\n"
        )
        translated.translate()
        assert translated.call("verify").endswith(EQUAL)
    lines = json.loads(run("tables", "status", "--tables", translated.url, "--json").out)
    assert [line["topic"] for line in lines] == [translated.name]


def test_wrong_places_are_named_in_one_line(run: Run, translated: TranslatedTopic) -> None:
    name, url = translated.name, translated.url
    for words, message in (
        (("status", "--tables", f"{url}/none"), f"there is no directory {url}/none"),
        (("status", "other", "--tables", url), "there is no table redpanda.other"),
        (("verify", name, "--tables", url, "--namespace", "no"), f"there is no table no.{name}"),
        (("verify", name, "--tables", url, "--data", f"{url}/none"), "cannot be read"),
        (("status", "--tables", url, "--catalog", "uri"), "--catalog uri: expected KEY=VALUE"),
        (("status", "--tables", "ftp://host"), "none of file, s3, gs, az"),
    ):
        outcome = run("tables", *words)
        assert outcome.status == 1 and outcome.err.count("\n") == 1, outcome
        assert message in outcome.err
