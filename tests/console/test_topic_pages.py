"""The pages of topics, their records and searches, as a visitor sees them."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import confluent_kafka
import pytest

from wirekafka.console.pages import searching
from wirekafka.testing import Record

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">\'"&{{7*7}}\u202e'


@pytest.fixture
def topic(broker, request) -> str:
    name = request.node.originalname
    broker.create_topic(name, partitions=3, retention_ms=-1)
    yield name
    if name in broker.topics():
        broker.delete_topic(name)


def test_topics_are_listed_with_their_sizes(broker, site, topic):
    broker.produce(topic, [Record("x" * 5000, partition=n) for n in range(3)])
    [row] = [each for each in site.get("/topics").rows("#topics") if each[0] == topic]
    assert row[1:3] == ["3", "1"]
    assert row[3] == "14.9 KiB"
    assert row[6] == "0"


def test_internal_topics_are_shown_when_asked_for(broker, site, topic):
    made = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "makes-offsets"}
    )
    made.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 0)], asynchronous=False)
    made.close()
    assert "__consumer_offsets" not in site.get("/topics").text
    assert "__consumer_offsets" in site.get("/topics", internal="yes").text


def test_a_topic_has_its_partitions(broker, site, topic):
    broker.produce(topic, [Record("x", partition=1), Record("y", partition=1)])
    shown = site.get(f"/topics/{topic}")
    rows = shown.rows("#partitions")
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert rows[1][1:7] == ["1 epoch 0", "1", "1", "0", "2", "2"]
    assert shown.soup.select_one("nav.tabs a[aria-current]").text == "Partitions"
    assert not shown.soup.select("form[method=post]:not([action='/logout'])")


def test_an_unknown_topic_is_not_found(site):
    for path in ("", "/messages", "/search", "/groups", "/producers", "/messages/0/0"):
        shown = site.get(f"/topics/missing{path}")
        assert shown.status == 404
        assert "no topic missing" in shown.text
    assert "missing" not in site.get("/topics").text


def test_groups_on_a_topic_have_their_lag(broker, site, topic):
    broker.produce(topic, [Record("x", partition=0) for _ in range(5)])
    made = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{topic}-readers"}
    )
    made.commit(
        offsets=[
            confluent_kafka.TopicPartition(topic, 0, 2),
            confluent_kafka.TopicPartition(topic, 1, 0),
        ],
        asynchronous=False,
    )
    made.close()
    assert site.get(f"/topics/{topic}/groups").rows("#groups") == [
        [f"{topic}-readers", "classic", "Empty", "3", "1 of 2"]
    ]


def test_topics_are_created_grown_and_deleted(broker, changing):
    shown = changing.post(
        "/topics", name="made", partitions=2, replicas="", configs="retention.ms=5000\n"
    )
    assert shown.status == 200 and shown.url.endswith("/topics/made")
    assert broker.topics()["made"] == 2
    changing.post("/topics/made/partitions", partitions=4)
    assert broker.topics()["made"] == 4
    refused = changing.post("/topics/made/delete", name="mad")
    assert (refused.status, "made" in broker.topics()) == (400, True)
    assert changing.post("/topics/made/delete", name="made").status == 200
    assert "made" not in broker.topics()


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"name": ""}, 400, "Enter a name"),
        ({"name": "a b"}, 400, "INVALID_TOPIC"),
        ({"name": "x", "partitions": "-3"}, 400, "whole number"),
        ({"name": "x", "configs": "nonsense"}, 400, "write name=value"),
        ({"name": "x", "configs": "no.such=1"}, 400, "no.such"),
    ],
)
def test_a_topic_that_cannot_be_created_is_explained(broker, changing, fields, status, reason):
    shown = changing.post("/topics", **fields)
    assert shown.status == status and reason in shown.text
    assert "x" not in broker.topics()


@pytest.mark.parametrize("path", ["", "/{}/delete", "/{}/partitions", "/{}/producers/abort"])
def test_a_read_only_console_changes_nothing(broker, site, topic, path):
    shown = site.post(
        f"/topics{path.format(topic)}", name=topic, partitions=9, partition=0, producer=1, start=0
    )
    assert shown.status == 403 and "read-only" in shown.text
    assert broker.topics()[topic] == 3


def test_messages_are_shown_newest_first_and_paged(broker, site, topic):
    broker.produce(
        topic,
        [Record(f"v{n}", key=f"k{n}", partition=n % 3, timestamp_ms=1_000 + n) for n in range(12)],
    )
    shown = site.get(f"/topics/{topic}/messages", count=5)
    rows = shown.rows("#messages")
    assert [row[4] for row in rows] == ["v11", "v10", "v9", "v8", "v7"]
    assert rows[0][:4] == ["2", "3", "1970-01-01 00:00:01.011", "k11"]
    found = [row[4] for row in rows]
    while (link := shown.soup.select_one("a[rel=next]")) is not None:
        shown = site.get(f"/topics/{topic}/messages{link['href']}")
        found += [row[4] for row in shown.rows("#messages")]
    assert found == [f"v{n}" for n in range(11, -1, -1)]
    assert "the start of the log" in shown.text


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ({"order": "oldest", "count": 2, "partition": "0"}, ["v0", "v3"]),
        ({"order": "oldest", "partition": "1", "offset": "2"}, ["v7", "v10"]),
        ({"partition": "1", "offset": "2"}, ["v4", "v1"]),
        ({"order": "oldest", "time": "1970-01-01T00:00:01.009"}, ["v9", "v10", "v11"]),
        ({"order": "oldest", "time": "1010", "partition": "0,1"}, ["v10"]),
        ({"time": "1970-01-01T00:00:01.002Z"}, ["v1", "v0"]),
        ({"time": "2990-01-01", "order": "oldest"}, ["No records from this point."]),
    ],
)
def test_records_are_found_by_offset_and_time(broker, site, query, values):
    name = "sought"
    if name not in broker.topics():
        broker.create_topic(name, partitions=3, retention_ms=-1)
        broker.produce(
            name, [Record(f"v{n}", partition=n % 3, timestamp_ms=1_000 + n) for n in range(12)]
        )
    rows = site.get(f"/topics/{name}/messages", **query).rows("#messages")
    assert [row[4] if len(row) > 4 else row[0] for row in rows] == values


@pytest.mark.parametrize(
    "query",
    [
        {"partition": "x"},
        {"partition": "-1"},
        {"partition": "7"},
        {"offset": "-1"},
        {"offset": "9" * 30},
        {"time": "noon"},
        {"at": "0:x"},
        {"value_form": "avro"},
        {"count": "many"},
        {"partition": "²"},
    ],
)
def test_wrong_parameters_are_explained(broker, site, topic, query):
    shown = site.get(f"/topics/{topic}/messages", **query)
    assert shown.status in (400, 404), shown.text
    assert shown.soup.select_one("main") is not None


def test_a_record_is_shown_with_all_that_is_known_of_it(broker, site, topic):
    broker.produce(
        topic,
        [
            Record(
                '{"a": [1, 2]}',
                key=b"\x00\x00\x00\x2a",
                headers=(("trace", b"abc"), ("none", None)),
                partition=0,
                timestamp_ms=1_000,
            )
        ],
    )
    shown = site.get(f"/topics/{topic}/messages/0/0")
    key, value = (each.text for each in shown.soup.select("pre"))
    assert key.startswith("00000000  00 00 00 2a")
    assert value.splitlines()[1] == '  "a": ['
    assert shown.rows() == [["trace", "abc"], ["none", "null"]]
    assert "1970-01-01 00:00:01.000 UTC, CreateTime" in shown.words("dl.facts")
    assert "compression none" in shown.words("dl.facts")
    as_hex = site.get(f"/topics/{topic}/messages/0/0", value_form="hex")
    assert as_hex.soup.select("pre")[1].text.startswith("00000000  7b 22 61")
    assert site.get(f"/topics/{topic}/messages/0/1").status == 404
    assert site.get(f"/topics/{topic}/messages/9/0").status == 404


def test_whole_values_are_downloaded_as_files_only(broker, site, topic):
    value = "<script>alert(1)</script>" + "x" * 500_000
    broker.produce(topic, [Record(value, partition=1)])
    page = site.get(f"/topics/{topic}/messages/1/0")
    assert len(page.text) < 400_000 and "its start" in page.text
    [link] = [a["href"] for a in page.soup.select("a[download]")]
    got = site.get(link)
    assert got.text == value
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Content-Disposition"].startswith("attachment; ")
    assert site.get(link.replace("/value", "/key")).status == 404


def test_hostile_records_are_only_text(broker, site, topic):
    broker.produce(
        topic, [Record(HOSTILE, key=HOSTILE, headers=((HOSTILE, HOSTILE.encode()),), partition=0)]
    )
    made = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": HOSTILE}
    )
    made.init_transactions(10)
    made.begin_transaction()
    made.produce(topic, "x", partition=0)
    assert made.flush(10) == 0
    paths = [
        f"/topics/{topic}/messages",
        f"/topics/{topic}/messages/0/0",
        f"/topics/{topic}/messages?{quote('value_form')}=text&key_form=text",
        f"/topics/{topic}/search?plain=yes&text=alert",
        f"/topics/{topic}/search?text={quote(HOSTILE)}&field={quote(HOSTILE)}",
        f"/topics/{topic}/producers",
        "/transactions",
        f"/transaction?id={quote(HOSTILE, safe='')}",
        f"/transaction?id={quote(HOSTILE, safe='') * 2}",
    ]
    for path in paths:
        shown = site.get(path)
        for each in shown.soup.select("main script, main img, main [onerror], main iframe"):
            raise AssertionError(f"{path}: {each}")
        assert "49" not in shown.words("h1") and "alert(1)</script>" not in shown.text
        for each in shown.soup.select("main [value]"):
            each.extract()  # What the visitor has entered.
        assert "\u202e" not in shown.words()
    for kind, html in site.events(f"/topics/{topic}/search/events", text="alert"):
        assert "<script" not in html and "<img" not in html, kind
    made.flush()
    made.abort_transaction(10)


def test_transactional_records_have_their_state(broker, site, topic):
    made = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    )
    made.init_transactions(10)
    for end in (made.abort_transaction, made.commit_transaction, None):
        made.begin_transaction()
        made.produce(topic, "x", partition=0)
        assert made.flush(10) == 0
        if end is not None:
            end(10)
    rows = site.get(f"/topics/{topic}/messages", order="oldest").rows("#messages")
    assert [tuple(row[4:6]) for row in rows] == [
        ("x", "aborted"),
        ("marker: abort", ""),
        ("x", "committed"),
        ("marker: commit", ""),
        ("x", "open"),
    ]
    [open_row] = site.get("/transactions").rows("#transactions")
    assert open_row[:2] == [topic, "Ongoing"] and open_row[4] == "1"
    one = site.get("/transaction", id=topic)
    assert [row[:2] for row in one.rows()] == [[topic, "0"]]
    [producer] = site.get(f"/topics/{topic}/producers").rows("#producers")
    assert producer[5] == f"open since offset 4 {topic}"
    made.abort_transaction(10)
    assert "No transactions are open" in site.get("/transactions").text
    assert topic in site.get("/transactions", ended="yes").text
    missing = site.get("/transaction", id="missing")
    assert missing.status == 404 and "no transactional id missing" in missing.text


def test_a_search_streams_what_it_finds(broker, site, topic):
    broker.produce(topic, [Record(f"number {n}", partition=n % 3) for n in range(30)])
    found = list(site.events(f"/topics/{topic}/search/events", text="number 7"))
    rows = [html for kind, html in found if kind == "row"]
    assert len(rows) == 1 and "number 7" in rows[0]
    last = [html for kind, html in found if kind == "status"][-1]
    assert "Complete" in last and "among 30 records" in last
    page = site.get(f"/topics/{topic}/search", text="number 7")
    live = page.soup.select_one("[data-live]")["data-live"]
    assert [html for kind, html in site.events(live) if kind == "row"] == rows


def test_a_search_works_without_scripts(broker, site, topic):
    broker.produce(topic, [Record('{"id": 7}', partition=2), Record('{"id": 8}', partition=2)])
    asked = site.get(f"/topics/{topic}/search", text="7", field="id")
    link = asked.soup.select_one("noscript a")["href"]
    shown = site.get(f"/topics/{topic}/search{link}")
    assert [row[4] for row in shown.rows("#found")] == ['{"id": 7} { "id": 7 }']
    assert "Complete" in shown.words("#progress")


def test_a_search_in_steps_goes_on_where_it_stopped(broker, site, topic, monkeypatch):
    monkeypatch.setattr("wirekafka.console.pages.searching._STEP_S", 0.0)
    for n in range(6):
        broker.produce(topic, [Record(f"{n}" + "x" * 900_000, partition=0)])
    shown = site.get(f"/topics/{topic}/search", text="x", plain="yes")
    found = [row[1] for row in shown.rows("#found")]
    assert 0 < len(found) < 6
    while (link := shown.soup.select_one("a[rel=next]")) is not None:
        shown = site.get(f"/topics/{topic}/search{link['href']}")
        found += [row[1] for row in shown.rows("#found")]
    assert found == [str(n) for n in range(6)]


def test_a_search_ends_when_its_visitor_leaves(broker, site, topic):
    for _ in range(40):
        broker.produce(topic, [Record("x" * 900_000, partition=0)])
    stream = site.events(f"/topics/{topic}/search/events", text="nowhere")
    next(stream)
    stream.close()
    slots = searching._slots
    broker.wait_for(lambda: slots._value == searching._MOST_SEARCHES, timeout_s=20)


def test_searches_at_a_time_are_limited(broker, site, topic):
    for _ in range(searching._MOST_SEARCHES):
        assert searching._slots.acquire(timeout=10)
    try:
        shown = site.get(f"/topics/{topic}/search", text="x", plain="yes")
        assert shown.status == 503
        failed = dict(site.events(f"/topics/{topic}/search/events", text="x"))
        assert "searches are under way" in failed["failed"]
    finally:
        for _ in range(searching._MOST_SEARCHES):
            searching._slots.release()


def test_pages_are_served_at_the_same_time(broker, site, topic):
    broker.produce(topic, [Record("x", partition=0)])
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(lambda _: site.get(f"/topics/{topic}/messages").status, range(24)))
    assert shown == [200] * 24
