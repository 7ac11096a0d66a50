"""The pages of topic tables: lag, state and errors, and a preview of the newest rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.io import load_file_io

from tests.console.site import Site, console
from wirekafka import Broker
from wirekafka.client.client import Client
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.table_place import TablePlace
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metrics.table_status import TableState, TableStatus
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.layout import (
    DEAD_LETTER_COLUMNS,
    KEY_VALUE_COLUMNS,
    dead_letter_table,
)
from wirekafka.tables.iceberg.topic_table import TopicTable
from wirekafka.testing import Allow
from wirekafka.translation import table_preview
from wirekafka.translation.status_files import write_statuses

HOSTILE = '<img src=x onerror="alert(1)">'
USERS = {"ann": "ann's secret"}
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


class Tables(NamedTuple):
    """A broker, its tables, and a visitor of a console that shows them."""

    broker: Broker
    place: TablePlace
    site: Site

    def append(
        self, topic: str, values: Sequence[bytes | None], *, start: int = 0, is_dead: bool = False
    ) -> None:
        """Commit rows for offsets of partition 0."""
        columns = DEAD_LETTER_COLUMNS if is_dead else KEY_VALUE_COLUMNS
        rows = [
            {
                "redpanda": {
                    "partition": 0,
                    "offset": at,
                    "timestamp": datetime.fromtimestamp(1_700_000_000 + at, UTC),
                    "key": b"k\0" if value is None else b"key",
                    "headers": None,
                    "timestamp_type": 0,
                },
                "value": value,
                "error": HOSTILE,
            }
            for at, value in enumerate(values, start)
        ]
        rows = [{name: row[name] for name in columns.names} for row in rows]
        self.table(topic, is_dead=is_dead).append(
            pa.Table.from_pylist(rows, columns), {0: (start, start + len(values))}, {0: 0}
        )

    def table(self, topic: str, *, is_dead: bool = False) -> TopicTable:
        columns = DEAD_LETTER_COLUMNS if is_dead else KEY_VALUE_COLUMNS
        name = dead_letter_table(topic) if is_dead else topic
        catalog = open_catalog(self.place.url)
        return TopicTable.open(catalog, ("redpanda", name), self.id_of(topic), columns, "()")

    def id_of(self, topic: str) -> str:
        with Client(self.broker.bootstrap_servers) as client:
            return uuid_text(bytes(client.topic(topic).topic_id))

    def report(self, *statuses: TableStatus) -> None:
        """Write what the worker of broker 1 reports."""
        url = f"file://{self.place.url}"
        write_statuses(load_file_io(location=url), url, 1, 1_000, statuses)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    place = TablePlace(str(tmp_path_factory.mktemp("tables")))
    with Broker() as broker, console(broker.bootstrap_servers, tables=place) as site:
        yield Tables(broker, place, site)


def cells(tables: Tables, topic: str, **query: str) -> list[str]:
    [row] = tables.site.get("/tables", q=topic, **query).rows("#tables")
    return row


def test_without_tables_nothing_of_them_is_shown_or_imported(site: Site) -> None:
    assert "Tables" not in site.get("/").words("header nav")
    assert site.get("/tables").status == 404
    code = (
        "import sys, wirekafka.console.service, wirekafka.console.sampler\n"
        "from wirekafka.console.settings import ConsoleSettings\n"
        "from wirekafka.config.address import Address\n"
        "from wirekafka.config.table_place import TablePlace\n"
        "from wirekafka.console.access import SessionAccounts\n"
        "from wirekafka.console import app\n"
        "for place in (None, TablePlace('/tables')):\n"
        "    settings = ConsoleSettings('127.0.0.1:1', Address('127.0.0.1', 0), tables=place)\n"
        "    app.create(settings, SessionAccounts(settings, lambda pool: None))\n"
        "parts = 'wirekafka.translation', 'wirekafka.tables', 'pyiceberg', 'pyarrow', 'numpy'\n"
        "print([name for name in sys.modules if name.startswith(parts)])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_tables_are_listed_with_lag_state_and_errors(tables: Tables) -> None:
    tables.broker.produce("listed", [b"a", b"b", b"c"])
    tables.append("listed", [b"a", b"b"])
    tables.append("listed", [b"?"], is_dead=True)
    assert cells(tables, "listed")[1:3] == ["not reported", "1"]
    status = TableStatus(topic="listed", topic_id=tables.id_of("listed"))
    tables.report(status)
    row = cells(tables, "listed")
    assert row[:3] == ["listed", "running", "1"]
    assert row[4].endswith(" ago") and row[5:7] == ["2", "1"] and row[8] == "1"
    status.state, status.error = TableState.PAUSED, HOSTILE
    tables.report(status)
    page = tables.site.get("/tables", q="listed", sort="state")
    assert page.rows("#tables")[0][1] == f"paused {HOSTILE}"
    assert page.words("#paused").startswith("1 paused")
    assert page.soup.select("main img") == []
    [figures] = page.soup.select("[data-refresh]")
    assert figures.select("#tables") and figures["id"] == "page"


def test_a_table_has_its_partitions_and_its_newest_rows(tables: Tables) -> None:
    tables.broker.produce("shown", [b"x"] * 30)
    tables.append("shown", [b"older %d" % at for at in range(10)])
    values = [b"%d" % at for at in range(13)]
    tables.append("shown", [*values, HOSTILE.encode(), b"\xff\0", None], start=10)
    tables.append("shown", [b"bad"], is_dead=True)
    page = tables.site.get("/tables/shown")
    assert page.words("h1") == "Table shown"
    assert page.rows("#partitions") == [["0", "26", "0", "30", "4"]]
    rows = page.rows("section[aria-labelledby=newest]")
    assert len(rows) == 20
    assert rows[0][:2] == ["0", "25"] and rows[0][3:] == ["00000000 6b 00 k.", "null"]
    assert rows[1][4] == "00000000 ff 00 .."
    assert rows[2][3:] == ["key", HOSTILE] and page.soup.select("main img") == []
    assert [row[4] for row in rows[3:]][:13] == [each.decode() for each in values][::-1]
    assert rows[16][4] == "older 9"
    [letter] = page.rows("section[aria-labelledby=letters]")
    assert letter[4:] == ["bad", HOSTILE]
    figures = tables.site.get("/tables/shown", show="state")
    assert figures.rows("#partitions") == page.rows("#partitions")
    assert figures.rows("section[aria-labelledby=newest]") == []
    assert tables.site.get("/tables/none").status == 404
    assert tables.site.get("/tables/shown~dlq").status == 404


def test_rows_in_large_files_and_times_beyond_those_of_python_do_no_harm(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.broker.produce("odd", [b"x"])
    table = tables.table("odd").table
    time = pa.array([1 << 62], pa.timestamp("us", tz="UTC"))
    fields = [pa.array([0], pa.int32()), time, pa.array([0], pa.int64())]
    record = pa.StructArray.from_arrays(fields, ["partition", "timestamp", "offset"])
    table.append(pa.table({"redpanda": record, "value": pa.array([b"far"], pa.binary())}))
    [row] = tables.site.get("/tables/odd").rows("section[aria-labelledby=newest]")
    assert row[4] == "far"
    monkeypatch.setattr(table_preview, "_LARGEST_FILE_BYTES", 10)
    page = tables.site.get("/tables/odd")
    assert "files that are too large for a preview" in page.words()
    assert page.rows("section[aria-labelledby=newest]") == [["No rows."]]


def test_a_table_whose_topic_was_created_again_is_marked(tables: Tables) -> None:
    tables.broker.produce("again", [b"a"])
    tables.append("again", [b"a"])
    tables.broker.delete_topic("again")
    assert cells(tables, "again")[1:4] == ["no topic", "–", "–"]
    tables.broker.create_topic("again")
    page = tables.site.get("/tables/again")
    assert "was created again with another id" in page.words()


def test_a_table_that_cannot_be_read_is_named_with_the_reason(tables: Tables) -> None:
    tables.broker.produce("damaged", [b"a"])
    tables.append("damaged", [b"a"])
    location = tables.table("damaged").table.metadata_location.removeprefix("file://")
    Path(location).unlink()
    row = cells(tables, "damaged")
    assert row[1].startswith("unreadable redpanda.damaged: ")
    page = tables.site.get("/tables/damaged")
    assert page.status == 200 and location in page.words("[role=alert]")


def test_a_visitor_sees_the_tables_of_topics_that_the_acls_allow(tmp_path: Path) -> None:
    acls = [
        Allow("ann", ("read", "describe"), topic="orders"),
        Allow("ann", ("describe",), topic="payments"),
    ]
    place = TablePlace(str(tmp_path))
    topics = ["orders", "payments", "salaries"]
    with Broker(topics=topics) as plain, console(plain.bootstrap_servers, tables=place) as site:
        for topic in topics:
            Tables(plain, place, site).append(topic, [b"secret"])
    with (
        Broker(users=USERS, acls=acls, topics=topics) as broker,
        console(broker.bootstrap_servers, config=ClientConfig(SASL), tables=place) as site,
    ):
        assert site.get("/tables").words("h1") == "Log in"
        site.log_in("ann", USERS["ann"])
        page = site.get("/tables")
        assert [row[0] for row in page.rows("#tables")] == ["orders", "payments"]
        assert "secret" in site.get("/tables/orders").words()
        described = site.get("/tables/payments").words()
        assert "it needs READ on the topic" in described and "secret" not in described
        hidden = site.get("/tables/salaries")
        assert hidden.status == 404 and "secret" not in hidden.text


def test_a_place_without_a_catalog_is_reported(tmp_path: Path, broker: Broker) -> None:
    place = TablePlace("s3://bucket/tables")
    with console(broker.bootstrap_servers, tables=place) as site:
        page = site.get("/tables")
        assert page.status == 502 and "need a catalog" in page.words("main")
