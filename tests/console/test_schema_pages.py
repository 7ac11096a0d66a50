"""The pages of schemas, and records that are decoded by them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

import pytest

from tests.console.site import Site, console
from tests.registry.fake_registry import Fault, fake_registry
from wirekafka import Broker
from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.schemas.framing import with_id
from wirekafka.schemas.schema import Format, SchemaReference
from wirekafka.testing import Record

HOSTILE = '<img src=x onerror="alert(1)">'


class Schemas(NamedTuple):
    """A broker with a registry, a client of it, and a visitor of a console that decodes by it."""

    broker: Broker
    client: SchemaRegistry
    site: Site

    def register(self, subject: str, *fields: str, **registration: Any) -> int:
        """Register a record of fields, each `name type`, or any other schema."""
        return self.client.register(subject, record(*fields), **registration)

    def framed(self, id: int, value: Any) -> bytes:
        return with_id(id, self.client.schema(id).parsed.encoded(value))


def record(*fields: str) -> str:
    pairs = (field.split() for field in fields)
    members = [{"name": name, "type": json.loads(kind)} for name, kind in pairs]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": members})


@pytest.fixture(scope="module")
def schemas() -> Iterator[Schemas]:
    with (
        Broker(schema_registry=True) as broker,
        SchemaRegistry(broker.schema_registry_url) as client,
        console(
            broker.bootstrap_servers, allow_changes=True, schema_registry=broker.schema_registry_url
        ) as site,
    ):
        yield Schemas(broker, client, site)


def test_without_a_registry_nothing_of_it_is_shown_or_imported(site: Site) -> None:
    assert "Schemas" not in site.get("/").words("header nav")
    assert site.get("/schemas").status == 404
    code = (
        "import sys, wirekafka.console.service, wirekafka.console.sampler\n"
        "from wirekafka.console.settings import ConsoleSettings\n"
        "from wirekafka.config.address import Address\n"
        "from wirekafka.console.access import SessionAccounts\n"
        "from wirekafka.console import app\n"
        "settings = ConsoleSettings('127.0.0.1:1', Address('127.0.0.1', 0))\n"
        "app.create(settings, SessionAccounts(settings, lambda pool: None))\n"
        "parts = 'wirekafka.schemas', 'wirekafka.client.schema_registry', 'fastavro'\n"
        "print([name for name in sys.modules if name.startswith(parts)])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_messages_are_decoded_with_a_link_to_their_schema(schemas: Schemas) -> None:
    key = schemas.client.register("a-key", '"string"')
    order = schemas.register("a-value", 'id "long"', 'html "string"')
    value = {"id": 17, "html": HOSTILE}
    record = Record(schemas.framed(order, value), key=schemas.framed(key, "k"))
    schemas.broker.produce("a", [record])
    page = schemas.site.get("/topics/a/messages")
    [row] = page.rows("#messages")
    assert row[3] == f'"k" id {key}, AVRO'
    assert '"html": "<img src=x onerror=\\"alert(1)\\">"' in row[4]
    assert row[4].endswith(f"shop.Order , id {order}, AVRO")
    assert page.soup.select("main img") == []
    [link] = page.soup.select("td.value .schema a")
    assert link["href"] == f"/schemas/schema?id={order}"
    assert json.loads(page.soup.select_one("td.value details pre").get_text()) == value
    record = schemas.site.get("/topics/a/messages/0/0")
    assert json.loads(record.soup.select("main pre")[1].get_text()) == value
    assert f"shop.Order , id {order}, AVRO" in record.words()
    hexadecimal = schemas.site.get("/topics/a/messages", value_form="hex").rows("#messages")
    assert hexadecimal[0][4].split(" B ")[1].startswith(f"00 00 00 00 {order:02x} 22")
    assert f"00000000 00 00 00 00 {order:02x} 22" in hexadecimal[0][4]


def test_messages_of_protobuf_are_decoded_too(schemas: Schemas) -> None:
    text = """syntax = "proto3"; package shop; message Sale { int64 id = 1; string html = 2; }"""
    id = schemas.client.register("p-value", text, Format.PROTOBUF)
    value = {"id": "9007199254740993", "html": HOSTILE}
    schemas.broker.produce("p", [Record(schemas.framed(id, value))])
    where = "value.id > 9007199254740992"
    for page in ("messages", "search"):
        shown = schemas.site.get(f"/topics/p/{page}", where=where, plain="yes")
        [row] = shown.rows("table.records")
        assert '"id": "9007199254740993"' in row[4]
        assert row[4].endswith(f"shop.Sale , id {id}, PROTOBUF")
        assert shown.soup.select("main img") == []
    subject = schemas.site.get("/schemas/subject", name="p-value")
    assert "int64 id = 1;" in subject.words("section pre")


def test_a_schema_may_be_named_by_a_guid_in_a_header(schemas: Schemas) -> None:
    id = schemas.register("b-value", 'guid "long"')
    guid = schemas.client.schema(id).guid
    assert isinstance(guid, UUID)
    header = ("__value_schema_id", b"\1" + guid.bytes)
    schemas.broker.produce("b", [Record(b"\x22", headers=(header,))])
    page = schemas.site.get("/topics/b/messages")
    [link] = page.soup.select("td.value .schema a")
    assert link["href"] == f"/schemas/schema?guid={guid}"
    assert '"guid": 17' in page.rows("#messages")[0][4]
    assert '"name": "guid"' in schemas.site.get(str(link["href"])).words("main pre")


def test_values_that_do_not_decode_are_shown_with_the_reason(schemas: Schemas) -> None:
    id = schemas.register("c-value", 'c "long"')
    values = [with_id(9999, b"{}"), with_id(id, b""), b"plain", b'{"plain": 5}']
    schemas.broker.produce("c", [Record(each, partition=0) for each in values])
    rows = schemas.site.get("/topics/c/messages", order="oldest").rows("#messages")
    assert rows[0][4] == (
        r"7 B \x00\x00\x00'\x0f{} 00000000 00 00 00 27 0f 7b 7d ...'.{}"
        " not decoded: the registry has no schema with id 9999"
    )
    assert f"shop.Order , id {id}, AVRO not decoded: " in rows[1][4]
    assert [row[4] for row in rows[2:]] == ["plain", '{"plain": 5} { "plain": 5 }']


def test_values_that_are_larger_by_far_than_their_payloads_do_not_hold_up_a_page(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.console.pages.messages.PAGE_LIMIT_S", 0.3)
    nested = '["null","shop.Order"]'
    id = schemas.register("h-value", 'none {"type":"array","items":"null"}', f"more {nested}")
    many = b"\xc0\x9a\x0c"  # 100,000 nulls.
    endless = [many + b"\0\0", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0\0", b"\0\2" * 10_000]
    values = [endless[0]] * 150 + endless[1:]
    schemas.broker.produce("h", [Record(with_id(id, each)) for each in values])
    began_s = time.monotonic()
    page = schemas.site.get("/topics/h/messages", count=200)
    assert time.monotonic() - began_s < 15
    assert len(page.text) < 5_000_000
    rows = page.rows("#messages")
    assert all("not decoded: " in row[4] for row in rows[:2])
    assert '{ "none": [ null, null' in rows[2][4]
    assert "not decoded: the page has no more time" in rows[-1][4]


def test_large_values_are_decoded_on_the_page_of_the_record(schemas: Schemas) -> None:
    id = schemas.register("d-value", 'text "string"')
    schemas.broker.produce("d", [Record(schemas.framed(id, {"text": "x" * 40_000}))])
    [row] = schemas.site.get("/topics/d/messages").rows("#messages")
    assert "not decoded: larger than 32 KiB" in row[4]
    record = schemas.site.get("/topics/d/messages/0/0")
    assert "decoded" in record.words() and "x" * 40_000 in record.text


def test_a_page_asks_a_registry_that_is_gone_only_once(schemas: Schemas) -> None:
    schemas.broker.produce("e", [Record(with_id(id, b"")) for id in range(1000, 1050)])
    with (
        fake_registry() as fake,
        console(schemas.broker.bootstrap_servers, schema_registry=fake.url) as site,
    ):
        fake.faults.append(Fault(200, b"no JSON", times=1000))
        rows = site.get("/topics/e/messages").rows("#messages")
        assert len(rows) == 50
        assert all("not decoded" in row[4] for row in rows)
        assert len(fake.seen) == 1


def test_a_search_compares_decoded_fields(schemas: Schemas) -> None:
    customer = '{"type":"record","name":"Customer","fields":[{"name":"id","type":"int"}]}'
    id = schemas.register("f-value", f"customer {customer}", 'name "string"')
    documents = [{"customer": {"id": number}, "name": f"n {number}"} for number in range(20)]
    records = [Record(schemas.framed(id, each)) for each in documents]
    others = [Record(json.dumps(documents[17])), Record("n 17"), Record(with_id(id, b"\2"))]
    schemas.broker.produce("f", [*records, *others])
    site, query = schemas.site, {"where": "value.customer.id = 17"}
    events = list(site.events("/topics/f/search/events", **query))
    assert sum(kind == "row" for kind, _ in events) == 2
    assert "1 key or value that names a schema was not decoded" in events[-2][1]
    page = site.get("/topics/f/search", plain="yes", **query, text="n 1")
    assert len(page.rows("#found")) == 2
    query = {"where": 'value.customer.id >= 18 and value.name contains "n 19"', "plain": "yes"}
    [row] = site.get("/topics/f/search", **query).rows("#found")
    assert "n 19" in row[4] and f"shop.Order , id {id}, AVRO" in row[4]
    refused = site.get("/topics/f/search", where="customer.id = 17")
    assert refused.status == 400
    assert "A path begins with key or value, not 'customer'." in refused.words()


def test_subjects_are_listed_with_what_they_have(schemas: Schemas) -> None:
    ids = [schemas.register("list-value", *fields) for fields in (['x "int"'], [])]
    gone = schemas.client.register("gone-value", '"float"')
    schemas.client.delete("gone-value")
    schemas.client.register(":.other:list-value", '"float"')
    schemas.client.request("PUT", "config/list-value", {"compatibility": "NONE"})
    page = schemas.site.get("/schemas", q="list-")
    assert page.rows("#subjects") == [
        [":.other:list-value", "AVRO", "1", "1", "1", "BACKWARD of all"],
        ["list-value", "AVRO", "2", "2", str(ids[1]), "NONE"],
    ]
    assert "BACKWARD compatibility of subjects" in page.words()
    assert "READWRITE" in page.words()
    [row] = schemas.site.get("/schemas", deleted="yes", q="gone").rows("#subjects")
    assert row == ["gone-value deleted", "AVRO", "1", "1", str(gone), "BACKWARD of all"]
    assert schemas.site.get("/schemas", q="gone").rows("#subjects") == [["No subjects."]]


def test_the_id_of_a_subject_is_looked_up_in_its_context(schemas: Schemas) -> None:
    name = ":.apart:context-value"
    schemas.client.request("PUT", f"config/{quote(name)}", {"compatibility": "NONE"})
    for text in ('"double"', '"string"'):
        schemas.client.register(name, text)
    for page in (
        schemas.site.get("/schemas", q=name),
        schemas.site.get("/schemas/subject", name=name),
    ):
        [link] = page.soup.select("main a[href^='/schemas/schema?']")
        shown = schemas.site.get(str(link["href"]))
        assert shown.words("main pre") == '"string"'
        assert f"{name} , version 2" in shown.words()


def test_a_subject_has_versions_differences_references_and_uses(schemas: Schemas) -> None:
    client, site = schemas.client, schemas.site
    texts = [record('g "long"'), json.dumps({**json.loads(record('g "long"')), "doc": "Sold."})]
    ids = [client.register("g-value", text) for text in texts]
    referring = client.register(
        "basket-value",
        record('order "Sale"').replace("Order", "Basket").replace("Sale", "shop.Order"),
        references=[SchemaReference("shop.Order", "g-value", 1)],
    )
    values = [schemas.framed(ids[0], {"g": 5})] * 3 + [with_id(7777, b""), b"x"]
    schemas.broker.produce("g", [Record(each) for each in values])
    page = site.get("/schemas/subject", name="g-value")
    assert '"doc": "Sold."' in page.words("section pre")
    assert "compatibility, of all subjects" in page.words()
    uses = page.rows("section[aria-labelledby=uses]")
    assert uses == [
        [f"id {ids[0]}", "3", "g-value , version 1"],
        ["id 7777", "1", "unknown to the registry"],
    ]
    assert "The newest 5 records; 1 without a schema" in page.words()
    first = site.get("/schemas/subject", **{"name": "g-value", "version": 1, "from": 2})
    assert "basket-value , version 1" in first.words("section[aria-labelledby=referring]")
    lines = first.words("#lines")
    assert '- "doc": "Sold.", "fields": [' in lines
    basket = site.get("/schemas/subject", name="basket-value")
    assert "shop.Order : g-value , version 1" in basket.words("section[aria-labelledby=references]")
    assert "basket-value , version 1" in site.get("/schemas/schema", id=referring).words()
    assert site.get("/schemas/subject", name="nothing").status == 404
    assert site.get("/schemas/subject", name="g-value", version=9).status == 404
    assert site.get("/schemas/schema", id=7777).status == 404


def test_a_schema_is_checked_before_it_is_registered(schemas: Schemas) -> None:
    site = schemas.site
    schemas.register("checked-value", 'id "long"')
    form = {"name": "checked-value", "format": "AVRO", "references": ""}
    bad, good = record('html "string"'), record('id "long"', 'more ["null","int"]')
    page = site.post("/schemas/register", **form, schema=bad, action="check")
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in page.words("[role=alert]")
    assert page.soup.select_one("textarea[name=schema]").get_text().strip() == bad
    page = site.post("/schemas/register", **form, schema=bad, action="register")
    assert page.status == 409
    assert "(error code 409)" in page.words("[role=alert]")
    good = good.replace('"int"]', '"int"], "default": null')
    page = site.post("/schemas/register", **form, schema=good, action="check")
    assert page.words("[role=status]") == "The schema is compatible."
    assert schemas.client.versions("checked-value") == [1]
    page = site.post("/schemas/register", **form, schema=good, action="register")
    assert page.url.endswith("/schemas/subject?name=checked-value")
    assert schemas.client.versions("checked-value") == [1, 2]


def test_a_refused_form_keeps_its_input_and_shows_the_message(schemas: Schemas) -> None:
    site = schemas.site
    schemas.register("refused-value", 'id "long"')
    references = "Money money-value 1"
    form = {"name": "refused-value", "format": "JSON", "schema": HOSTILE, "references": references}
    page = site.post("/schemas/register", **form, action="register")
    assert page.status == 422
    assert "(error code 42201)" in page.words("[role=alert]")
    assert page.soup.select("main img") == []
    assert page.soup.select_one("textarea[name=references]").get_text().strip() == references
    assert page.words("select[name=format] option[selected]") == "JSON"
    page = site.post("/schemas/register", **form | {"references": "Money"}, action="register")
    assert "A reference is a name, a subject and a version, not 'Money'." in page.words()
    page = site.post("/schemas/level", name="refused-value", level="SOME", action="set")
    assert page.status == 422 and "(error code 42203)" in page.words("[role=alert]")
    form = {"name": "refused-value", "version": "1", "confirmed": "refused-value"}
    page = site.post("/schemas/delete", **form, permanent="yes")
    assert page.status == 404 and "(error code 40407)" in page.words("[role=alert]")
    assert page.soup.select_one("input[name=confirmed]")["value"] == "refused-value"


def test_levels_are_changed(schemas: Schemas) -> None:
    site, client = schemas.site, schemas.client
    schemas.register("level-value", 'id "long"')
    site.post("/schemas/level", name="level-value", level="FULL", action="set")
    assert client.request("GET", "config/level-value") == {"compatibilityLevel": "FULL"}
    page = site.get("/schemas/subject", name="level-value")
    assert "FULL compatibility, its own" in page.words(".tiles")
    site.post("/schemas/level", name="level-value", action="delete")
    with pytest.raises(CliError, match="40408"):
        client.request("GET", "config/level-value")
    site.post("/schemas/level", name="", level="FORWARD", action="set")
    assert "FORWARD" in site.get("/schemas").words(".tiles")
    site.post("/schemas/level", name="", level="BACKWARD", action="set")


def test_versions_are_deleted_once_the_name_is_entered(schemas: Schemas) -> None:
    site = schemas.site
    for text in ('"int"', '"long"'):
        schemas.client.register("deleted-value", text)
    form = {"name": "deleted-value", "version": "1"}
    page = site.post("/schemas/delete", **form, confirmed="orders")
    assert page.status == 400 and "Nothing was deleted" in page.words("[role=alert]")
    page = site.post("/schemas/delete", **form, confirmed="deleted-value")
    assert schemas.client.versions("deleted-value") == [2]
    assert "1 deleted" in page.words()
    every = {"name": "deleted-value", "version": "all", "confirmed": "deleted-value"}
    site.post("/schemas/delete", **every)
    page = site.get("/schemas/subject", name="deleted-value")
    assert "This subject is deleted" in page.words()
    page = site.post("/schemas/delete", **every, permanent="yes")
    assert page.url.endswith("/schemas")
    assert site.get("/schemas/subject", name="deleted-value").status == 404


def test_a_read_only_console_refuses_changes(schemas: Schemas) -> None:
    schemas.register("kept-value", 'id "long"')
    url = schemas.broker.schema_registry_url
    with console(schemas.broker.bootstrap_servers, schema_registry=url) as site:
        for path in ("register", "level", "delete"):
            assert "read-only" in site.get(f"/schemas/{path}", name="kept-value").words()
            assert site.post(f"/schemas/{path}", name="kept-value").status == 403
        assert "Delete versions" not in site.get("/schemas/subject", name="kept-value").words()
