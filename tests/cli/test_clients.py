"""The positions and lags of clients, as `wirekafka clients` shows them."""

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from spark_examples.live_broker import live_broker
from tests.cli.conftest import Run
from tests.raw_client import RawClient
from tests.server.test_serve import fetch, fetch_request
from tests.sink_markers import commit_markers, marker
from wirekafka.protocol.fetch import FetchRequest


def test_a_client_that_commits_nothing_is_shown_with_its_lag(run: Run, bootstrap: str) -> None:
    run("topics", "create", "seen", "--partitions", "2")
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10})
    for number in range(60):
        producer.produce("seen", str(number), partition=number % 2)
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "client.id": "watcher",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("seen", 0, 0)])
    assert len(consumer.consume(30, timeout=10)) == 30
    consumer.close()
    del consumer  # It would continue to fetch ahead.
    for _ in range(5):
        producer.produce("seen", "late", partition=0)
    assert producer.flush(10) == 0
    (row,) = [row for row in shown(run) if row["client"] == "watcher"]
    assert (row["topic"], row["partition"]) == ("seen", 0)
    # The last fetch of the closed client may still have returned the late records.
    assert 29 <= row["last_fetched"] <= 34
    assert (row["end"], row["lag"]) == (35, 34 - row["last_fetched"])
    assert row["host"] == "127.0.0.1"


def test_one_fetch_without_a_session_is_shown_but_not_that_of_a_command(
    run: Run, bootstrap: str
) -> None:
    run("produce", "once", given="a\nb\nc\n")
    run("consume", "once", "--from", "beginning", "--exit-at-end")
    assert not [row for row in shown(run) if row["topic"] == "once"]
    host, port = bootstrap.split(":")
    with RawClient(int(port), host) as client:
        fetch(client, "once")
        [row] = [row for row in shown(run) if row["topic"] == "once"]
    assert (row["last_fetched"], row["lag"]) == (2, 0)


def test_queries_have_the_batch_of_their_sink_and_the_lag_of_their_source(
    run: Run, bootstrap: str
) -> None:
    run("produce", "asked", given="a\nb\nc\n")
    commit_markers(bootstrap, "etl", "asked", marker("of-etl", 12))
    commit_markers(bootstrap, "batches", "asked", marker("of-batches", 3))
    host, port = bootstrap.split(":")
    spark = "consumer-mine-0b6c6d0e-6d0a-4c4e-a2f5-5f0a7f3c1f10--17-executor-1"
    for client_id in (spark, "wirekafka-source-of-etl"):
        with RawClient(int(port), host) as client:
            request = fetch_request("asked")
            client.receive(FetchRequest, 11, client.send(request, 11, client_id))
    rows = {row["query"]: row for row in json.loads(run("clients", "--queries", "--json").out)}
    assert rows.keys() == {"etl", "batches", "mine--17"}
    assert (rows["etl"]["batch"], rows["etl"]["records"]) == (12, 1200)
    assert rows["etl"]["source"] == "wirekafka-source-of-etl" and rows["etl"]["lag"] == 0
    assert (rows["batches"]["lag"], rows["batches"]["at_ms"]) == (None, 3000)
    assert (rows["mine--17"]["batch"], rows["mine--17"]["source"]) == (None, "mine--17")


def test_the_default_output_is_a_table(run: Run) -> None:
    assert run("clients").out.split("\n")[0].split() == [
        "CLIENT",
        "HOST",
        "TOPIC",
        "PARTITION",
        "LAST_FETCHED",
        "END",
        "LAG",
        "IDLE_S",
    ]


def test_on_another_machine_one_sentence_names_where_to_run_it(
    run: Run, data_directory: Any
) -> None:
    socket = data_directory / "control.sock"
    hidden = socket.rename(socket.with_name("hidden.sock"))
    try:
        shown = run("clients")
    finally:
        hidden.rename(socket)
    assert (shown.status, shown.out) == (1, "")
    assert "only on its own machine" in shown.err and shown.err.count("\n") == 1


def test_a_clean_stop_removes_the_socket(tmp_path: Any) -> None:
    with live_broker(tmp_path / "data"):
        assert (tmp_path / "data" / "control.sock").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "data" / "control.sock").exists()


def shown(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("clients", "--json").out)
    return rows
