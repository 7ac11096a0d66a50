"""The console's pages of records, transactions and topics: Apache Kafka's are as wirekafka's."""

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.console.hanging import ORPHAN, leave_hanging
from tests.console.site import Site, console
from tests.eventually import eventually
from wirekafka import Broker
from wirekafka.client.client import Client

_UNVERIFIED = "transaction.partition.verification.enable=false\n"


@pytest.fixture(scope="module", params=["wirekafka", "Apache Kafka"])
def bootstrap(request, tmp_path_factory) -> Iterator[str]:
    if request.param == "wirekafka":
        with Broker(transaction_partition_verification_enable=False) as broker:
            yield broker.bootstrap_servers
        return
    directory: Path = tmp_path_factory.mktemp("kafka")
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER + _UNVERIFIED)
    with running(command, directory, port) as address:
        yield address


@pytest.fixture(scope="module")
def changing(bootstrap) -> Iterator[Site]:
    with console(bootstrap, allow_changes=True) as site:
        yield site


@pytest.fixture
def topic(bootstrap, request) -> str:
    name = request.node.originalname
    new = NewTopic(name, 2, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[name].result(10)
    return name


def producer(bootstrap: str, transactional_id: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    )
    made.init_transactions(30)
    return made


def write(made: confluent_kafka.Producer, topic: str, value: str) -> None:
    made.begin_transaction()
    made.produce(topic, value, partition=0, timestamp=1_000)
    assert made.flush(10) == 0


def test_records_have_the_state_of_their_transaction(bootstrap, changing, topic):
    hanging, other = producer(bootstrap, f"{topic}-a"), producer(bootstrap, f"{topic}-b")
    for end in (other.commit_transaction, other.abort_transaction):
        write(other, topic, end.__name__)
        end(10)
    write(hanging, topic, "open")
    for end in (other.abort_transaction, other.commit_transaction):
        write(other, topic, f"behind it: {end.__name__}")
        end(10)
    wanted = [
        ("commit_transaction", "committed"),
        ("marker: commit", ""),
        ("abort_transaction", "aborted"),
        ("marker: abort", ""),
        ("open", "open"),
        ("behind it: abort_transaction", "aborted"),
        ("marker: abort", ""),
        ("behind it: commit_transaction", "committed"),
        ("marker: commit", ""),
    ]
    for order, rows in (("oldest", wanted), ("newest", wanted[::-1])):
        shown = changing.get(f"/topics/{topic}/messages", order=order, partition=0)
        found = [tuple(row[4:6]) for row in shown.rows("#messages")]
        assert found == rows
    [listed] = [
        row for row in changing.get("/transactions").rows("#transactions") if topic in row[0]
    ]
    assert (listed[0], listed[1], listed[4]) == (f"{topic}-a", "Ongoing", "1")
    one = changing.get("/transaction", id=f"{topic}-a")
    assert [row[:2] for row in one.rows()] == [[topic, "0"]]
    hanging.abort_transaction(10)


def test_a_topic_is_created_filled_searched_and_deleted(bootstrap, changing):
    name = "through-pages"
    shown = changing.post("/topics", name=name, partitions=2, configs="retention.ms=-1")
    assert shown.url.endswith(f"/topics/{name}"), shown.text
    made = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 50}
    )
    for n in range(100):
        made.produce(name, f'{{"n": {n}}}', key=f"k{n}", partition=n % 2, timestamp=1_000 + n)
    assert made.flush(10) == 0
    rows = changing.get(f"/topics/{name}").rows("#partitions")
    assert [row[:7] for row in rows] == [
        [str(n), "1 epoch 0", "1", "1", "0", "50", "50"] for n in range(2)
    ]
    newest = changing.get(f"/topics/{name}/messages", count=3).rows("#messages")
    assert [row[3] for row in newest] == [f"k{n}" for n in range(99, 96, -1)]
    assert [row[4] for row in newest] == [f'{{"n": {n}}} {{ "n": {n} }}' for n in range(99, 96, -1)]
    sought = changing.get(
        f"/topics/{name}/messages", time="1970-01-01T00:00:01.050", order="oldest", count=1
    )
    assert sought.rows("#messages")[0][3] == "k50"
    found = list(changing.events(f"/topics/{name}/search/events", text="42", field="n"))
    rows = [html for kind, html in found if kind == "row"]
    assert len(rows) == 1 and "k42" in rows[0]
    assert "among 100 records" in [html for kind, html in found if kind == "status"][-1]
    page = changing.get(f"/topics/{name}/search", text="42", field="n")
    exported = changing.get(page.soup.select_one("a[download]")["href"])
    assert [json.loads(line)["key"] for line in exported.text.splitlines()] == ["k42"]
    live = changing.events(f"/topics/{name}/live/events", text="new")
    assert next(live)[0] == "at"
    made.produce(name, "new", partition=1)
    assert made.flush(10) == 0
    assert "new" in next(html for kind, html in live if kind == "row")
    live.close()
    changing.post(f"/topics/{name}/partitions", partitions=3)
    # Apache Kafka's broker knows of a change a moment after the controller has made it.
    eventually(lambda: len(changing.get(f"/topics/{name}").rows("#partitions")) == 3)
    assert changing.post(f"/topics/{name}/delete", name=name).status == 200
    eventually(lambda: changing.get(f"/topics/{name}").status == 404)


def test_a_hanging_transaction_is_found_and_aborted(bootstrap, changing, topic):
    with Client(bootstrap) as client:
        leave_hanging(client, topic, 1)
    [hanging] = changing.get(f"/topics/{topic}/producers").rows("#producers")
    assert hanging[0:2] == ["1", str(ORPHAN)]
    assert hanging[5].startswith("hanging since offset 0")
    assert hanging[6] == "Abort"
    shown = changing.post(f"/topics/{topic}/producers/abort", partition=1, producer=ORPHAN, start=0)
    assert shown.status == 200, shown.text
    [ended] = shown.rows("#producers")
    assert ended[5] == "none"
    rows = changing.get(f"/topics/{topic}/messages", order="oldest").rows("#messages")
    assert [tuple(row[4:6]) for row in rows] == [("orphan", "aborted"), ("marker: abort", "")]


def test_the_wire_of_a_foreign_broker_is_not_available(changing):
    assert "cannot be watched" in changing.get("/wire").words()
