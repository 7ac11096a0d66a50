"""The pages of schemas in a real browser: light and dark, narrow and wide, with hostile texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from tests.console.browser import browser, executable
from tests.console.site import Site, console
from tests.console.walk import NARROW, WIDE, Walk
from wirekafka import Broker
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.schemas.framing import with_id
from wirekafka.schemas.schema import Format, SchemaReference
from wirekafka.testing import Record

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
LONG = "com.example.orders." + "LongName" * 12
TOPIC = "orders"
SUBJECT = "orders-value"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def filled() -> Iterator[Site]:
    with (
        Broker(schema_registry=True) as broker,
        SchemaRegistry(broker.schema_registry_url) as client,
    ):
        fill(broker, client)
        with console(
            broker.bootstrap_servers, allow_changes=True, schema_registry=broker.schema_registry_url
        ) as site:
            yield site


def fill(broker: Broker, client: SchemaRegistry) -> None:
    space, _, name = LONG.rpartition(".")
    field = {"name": "id", "type": "long", "doc": HOSTILE}
    named = {"type": "record", "name": name, "namespace": space, "fields": [field]}
    client.register(LONG, json.dumps(named))
    more = {"name": "customer", "type": ["null", LONG], "default": None}
    lines = {"name": "lines", "type": {"type": "array", "items": "string"}, "default": []}
    for fields in ([field], [field, more, lines]):
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        id = client.register(SUBJECT, schema, references=[SchemaReference(LONG, LONG, 1)])
    title = json.dumps({"title": HOSTILE, "description": HOSTILE})
    click = client.register(HOSTILE, title, Format.JSON)
    order = client.schema(id).parsed
    values = [{"id": n, "customer": {"id": n}, "lines": [HOSTILE] * 20} for n in range(9)]
    records = [Record(with_id(id, order.encoded(each)), key=with_id(id, b"")) for each in values]
    others = [with_id(999, HOSTILE.encode() * 9), with_id(click, json.dumps(HOSTILE).encode())]
    broker.produce(TOPIC, [*records, *map(Record, others)])


def paths(site: Site) -> list[str]:
    found = site.get(f"/topics/{TOPIC}/messages").soup.select("#messages td:nth-child(2) a")
    return [
        f"/topics/{TOPIC}/messages",
        str(found[-1]["href"]),
        str(found[0]["href"]),
        f"/topics/{TOPIC}/search?where=value.id+%3C+3&plain=yes",
        "/schemas?deleted=yes",
        f"/schemas/subject?name={SUBJECT}&from=1",
        f"/schemas/subject?name={LONG}",
        "/schemas/schema?id=3",
        f"/schemas/subject?{urlencode({'name': HOSTILE})}",
        f"/schemas/register?name={SUBJECT}",
        f"/schemas/level?name={SUBJECT}",
        f"/schemas/delete?name={SUBJECT}",
    ]


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_of_schemas_works(
    chromium: Browser, filled: Site, scheme: str, width: int
) -> None:
    walk = Walk.open(chromium, filled.base, width, scheme)
    for path in paths(filled):
        walk.visit([path])
        assert walk.page.locator("main img, main script").count() == 0, path
        assert "console" in walk.page.title(), path
    walk.page.close()


def test_the_schemas_are_reached_by_a_key(chromium: Browser, filled: Site) -> None:
    walk = Walk.open(chromium, filled.base)
    walk.page.goto(f"{filled.base}/topics/{TOPIC}/messages")
    walk.page.keyboard.press("g")
    walk.page.keyboard.press("s")
    walk.page.wait_for_url("**/schemas")
    walk.page.keyboard.press("/")
    walk.page.keyboard.type("orders-")
    walk.page.keyboard.press("Enter")
    walk.page.wait_for_url("**/schemas?q=orders-*")
    assert walk.page.locator("#subjects tbody tr").count() == 1
    walk.page.close()


def test_a_value_is_expanded_in_place(chromium: Browser, filled: Site) -> None:
    walk = Walk.open(chromium, filled.base)
    walk.page.goto(f"{filled.base}/topics/{TOPIC}/messages?order=oldest")
    row = walk.page.locator("#messages tbody tr").filter(has_text="lines").first
    text = row.locator("td.value pre")
    assert not text.is_visible()
    row.locator("td.value summary").click()
    assert '"customer": {' in text.inner_text()
    assert text.inner_text().startswith('{\n  "id": 0,')
    assert HOSTILE.replace('"', '\\"') in text.inner_text()
    assert walk.problems == []
    walk.page.close()


def test_a_version_is_registered_by_a_person(chromium: Browser, filled: Site) -> None:
    walk = Walk.open(chromium, filled.base)
    page = walk.page
    page.goto(f"{filled.base}/schemas/subject?name={SUBJECT}")
    page.get_by_role("link", name="Check and register a new version").click()
    page.locator("textarea[name=schema]").fill('{"type": "record", "name": "Order", "fields": []}')
    page.get_by_role("button", name="Check compatibility").click()
    assert page.get_by_role("status").inner_text() == "The schema is compatible."
    page.get_by_role("button", name="Register").click()
    page.wait_for_url("**/schemas/subject?name=*")
    assert '"fields": []' in page.locator("section pre").first.inner_text()
    assert walk.problems == []
    page.close()
