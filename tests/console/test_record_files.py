"""Records as files to download, and the columns that a visitor chooses."""

import csv
import io
import json
import threading

import pytest

from wirekafka.codec.batch import read_header
from wirekafka.codec.record import Record, decode_records, encode_batch
from wirekafka.console.pages import messages
from wirekafka.console.records.columns import COLUMNS, chosen
from wirekafka.console.records.record_files import csv_table, json_lines
from wirekafka.console.topic_reads import RecordTransaction, Seen, seen_of
from wirekafka.testing import Record as Written

USUAL = ["partition", "offset", "time", "key", "value", "state"]


def seen(
    value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = (), kept: int = 100
) -> Seen:
    batch = encode_batch([Record(0, 1_000, b"key", value, headers)])
    header = read_header(batch)
    [record] = decode_records(batch, header)
    return seen_of(3, record, header, RecordTransaction.NONE, kept)


def row(value: bytes | None) -> dict[str, str]:
    [found] = csv.DictReader(io.StringIO(csv_table("t", [seen(value)], None).decode()))
    return found


def test_a_record_is_a_line_of_json():
    headers = (("text", b"x"), ("binary", b"\xff"), ("none", None))
    line = json_lines("t", [seen("é\n".encode(), headers)], None)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 0,
        "timestamp": 1000,
        "key": "key",
        "value": "é\n",
        "headers": [
            {"name": "text", "value": "x"},
            {"name": "binary", "value_base64": "/w=="},
            {"name": "none", "value": None},
        ],
    }


def test_bytes_that_are_no_text_are_base64():
    assert json.loads(json_lines("t", [seen(b"\xfe\xff")], None))["value_base64"] == "/v8="
    assert row(b"\xfe\xff")["value_base64"] == "/v8="


def test_a_part_that_was_cut_is_marked():
    assert json.loads(json_lines("t", [seen(b"x" * 200)], None))["cut"] is True
    assert row(b"x" * 200)["cut"] == "True"
    assert row(b"x")["cut"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "  =", "\uff1d"])
def test_no_cell_of_a_csv_file_is_taken_for_a_formula(start):
    assert row(f"{start}1+1".encode())["value"] == f"'{start}1+1"


def test_other_cells_are_as_they_were_written():
    found = row(b'a,"b"\n1')
    assert found["value"] == 'a,"b"\n1' and found["offset"] == "0"


def test_columns_are_chosen_by_a_link_or_by_a_form():
    assert [each.name for each in chosen({})] == USUAL
    assert [each.name for each in chosen({"columns": "value,offset,nonsense"})] == [
        "offset",
        "value",
    ]
    form = {"columns": "chosen", "c_size": "yes", "c_key": "yes"}
    assert [each.name for each in chosen(form)] == ["key", "size"]
    assert [each.name for each in chosen({"columns": "nonsense"})] == USUAL
    assert len({each.name for each in COLUMNS}) == len(COLUMNS)


def test_a_page_has_the_columns_that_were_chosen(broker, site):
    broker.produce("columned", [Written(b"\0\1", key="k", headers=(("trace", b"17"),))])
    page = site.get("/topics/columned/messages", columns="key,headers,size,value")
    head = [each.get_text() for each in page.soup.select("#messages thead th")]
    assert head == ["Key", "Value", "Headers", "Size"]
    [found] = page.rows("#messages")
    assert found[0] == "k" and found[2:] == ["trace : 17", "5 B"]
    assert found[1].startswith(r"2 B \x00\x01 00000000 00 01")
    checked = [each["name"] for each in page.soup.select(".columns input[checked]")]
    assert checked == ["c_key", "c_value", "c_headers", "c_size"]


def test_messages_are_downloaded_by_the_links_on_their_page(broker, site):
    broker.produce("exported", [Written(f"number {n}", partition=0) for n in range(60)])
    page = site.get("/topics/exported/messages", order="oldest", offset=5)
    lines, table = (each["href"] for each in page.soup.select("a[download]"))
    found = [json.loads(each)["value"] for each in site.get(lines).text.splitlines()]
    assert found == [f"number {n}" for n in range(5, 60)]
    shown = site.get(table)
    assert "filename*=UTF-8''exported.csv" in shown.headers["Content-Disposition"]
    assert shown.headers["Content-Type"] == "application/octet-stream"
    rows = list(csv.DictReader(io.StringIO(shown.text)))
    assert [each["value"] for each in rows] == found


def test_what_a_search_finds_is_downloaded(broker, site):
    broker.produce("sought", [Written(f"number {n}", partition=0) for n in range(60)])
    page = site.get("/topics/sought/search", text="number 7")
    shown = site.get(page.soup.select_one("a[download]")["href"])
    assert "sought-search.jsonl" in shown.headers["Content-Disposition"]
    assert [json.loads(each)["value"] for each in shown.text.splitlines()] == ["number 7"]


def test_a_search_that_was_not_finished_says_so_in_the_name_of_its_file(broker, site, monkeypatch):
    monkeypatch.setattr("wirekafka.console.pages.searching._EXPORT_S", -1.0)
    values = [f"{n}" + "x" * 900_000 for n in range(4)]
    for value in values:
        broker.produce("unfinished", [Written(value, partition=0)])
    shown = site.get("/topics/unfinished/search/export", text="x", format="csv", plain="yes")
    assert "unfinished-search-incomplete.csv" in shown.headers["Content-Disposition"]
    assert len(shown.text.splitlines()) < 1 + len(values)


def test_an_export_is_refused_without_the_page_and_in_other_formats(broker, site):
    broker.create_topic("refused")
    for path in ("messages", "search"):
        export = f"/topics/refused/{path}/export"
        assert site.get(export, text="x", format="csv").status == 400
        assert site.get(export, text="x", format="xls", plain="yes").status == 400
    assert site.get("/topics/refused/search/export", format="csv", plain="yes").status == 400


def test_only_a_few_exports_are_made_at_a_time(broker, site, monkeypatch):
    broker.create_topic("busy")
    monkeypatch.setattr(messages, "_exports", threading.BoundedSemaphore(1))
    with messages.export_slot():
        shown = site.get("/topics/busy/messages/export", format="csv", plain="yes")
        assert shown.status == 503
    assert site.get("/topics/busy/messages/export", format="csv", plain="yes").status == 200
