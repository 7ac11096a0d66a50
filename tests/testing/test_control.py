"""The control port: the same faults, set by HTTP requests with JSON."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.testing.clients import broker_assigned_consumer, confluent_consumer, polled, send, until
from wirekafka import Broker


def _ask(method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_rule_is_set_counted_and_removed() -> None:
    with Broker(topics=["t"]) as broker:
        url = broker.serve_control()
        assert _ask("GET", url)[1] == {"bootstrap_servers": broker.bootstrap_servers}
        status, rule = _ask(
            "POST",
            f"{url}/rules",
            {"kind": "fail", "api": "Produce", "error": "INVALID_TIMESTAMP", "topic": "t"},
        )
        assert status == 200
        assert send("confluent-kafka", broker, "t") == "INVALID_TIMESTAMP"
        assert _ask("GET", f"{url}/rules/{rule['id']}")[1]["hits"] == 1
        assert _ask("DELETE", f"{url}/rules/{rule['id']}")[0] == 200
        assert send("confluent-kafka", broker, "t") is None
        (first, second) = _ask("GET", f"{url}/requests?api=Produce")[1]
        assert (first["errors"], second["errors"]) == (["INVALID_TIMESTAMP"], [])


def test_every_response_has_connection_close() -> None:
    """Or Java's HttpClient sends the next request on it, and sometimes gets no response."""
    with Broker() as broker:
        address = broker.serve_control().removeprefix("http://")
        for path, headers in (("/", {}), ("/nothing", {}), ("/", {"Origin": "http://page"})):
            client = http.client.HTTPConnection(address, timeout=10)
            client.request("GET", path, headers=headers)
            assert client.getresponse().getheader("Connection") == "close"
            client.close()


def test_it_controls_the_clock_crashes_and_restarts() -> None:
    with Broker(topics=["t"]) as broker:
        url = broker.serve_control()
        before = _ask("GET", f"{url}/clock")[1]["now_ms"]
        assert _ask("POST", f"{url}/clock", {"hours": 1})[1]["now_ms"] >= before + 3_600_000
        assert _ask("POST", f"{url}/topics", {"name": "u", "partitions": 2})[0] == 200
        assert _ask("POST", f"{url}/crash")[0] == _ask("POST", f"{url}/restart")[0] == 200
        assert broker.topics() == {"t": 1, "u": 2}
        assert _ask("POST", f"{url}/reset")[0] == 200
        assert broker.topics() == {"t": 1}


def test_records_are_seeded_and_returned() -> None:
    with Broker() as broker:
        url = broker.serve_control()
        seeds = {"topic": "t", "records": ["one", ["key", "two"]]}
        assert _ask("POST", f"{url}/records", seeds) == (200, [0, 1])
        broker.produce("t", [b"\xff"])
        status, records = _ask("GET", f"{url}/records?topic=t&partition=0")
        assert status == 200 and [(each["key"], each["value"]) for each in records] == [
            (None, "one"),
            ("key", "two"),
            (None, {"base64": "/w=="}),
        ]
        assert _ask("GET", f"{url}/topics") == (200, {"t": 1})
        assert _ask("GET", f"{url}/records?topic=u")[0] == 404


def test_committed_offsets_of_a_group_are_returned() -> None:
    with Broker() as broker:
        broker.produce("t", ["one"])
        consumer = confluent_consumer(broker, "g")
        consumer.subscribe(["t"])
        consumer.commit(polled(consumer), asynchronous=False)
        assert _ask("GET", f"{broker.serve_control()}/committed?group=g") == (
            200,
            [{"topic": "t", "partition": 0, "offset": 1}],
        )
        consumer.close()


def test_a_state_lasts_until_it_is_deleted() -> None:
    with Broker(topics=["t"]) as broker:
        url = broker.serve_control()
        for kind in ("refuse_connections", "disk_full"):
            number = _ask("POST", f"{url}/rules", {"kind": kind})[1]["id"]
            assert _ask("GET", f"{url}/rules/{number}")[1] == {"id": number, "rule": kind}
            with socket.socket() as attempt:
                refused = attempt.connect_ex((broker.host, broker.port)) != 0
            assert refused == (kind == "refuse_connections")
            status, _ = _ask("POST", f"{url}/records", {"topic": "t", "records": ["v"]})
            assert status == (400 if kind == "disk_full" else 200)
            assert _ask("POST", f"{url}/rules/{number}/release")[0] == 404
            assert _ask("DELETE", f"{url}/rules/{number}")[0] == 200
        assert send("confluent-kafka", broker, "t") is None


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("nothing", {}, 404, "there are GET /"),
        ("rules", {"kind": "break"}, 400, "say one of fail"),
        ("rules", {"kind": "drop", "api": "Produces"}, 400, "'Produce'"),
        ("rules", {"kind": "drop"}, 400, "api"),
        ("rules", [], 400, "JSON object"),
        ("rules/7/release", {}, 404, "no rule 7"),
        ("clock", {"do": "stop"}, 400, "advance, freeze or thaw"),
    ],
)
def test_an_invalid_request_is_reported(path: str, body: Any, status: int, message: str) -> None:
    with Broker() as broker:
        answer = _ask("POST", f"{broker.serve_control()}/{path}", body)
        assert answer[0] == status and message in answer[1]["error"]


def test_a_control_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, Broker() as broker:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen at 127\.0\.0\.1:{port}.*port=0"):
            broker.serve_control(port)


def test_requests_of_browsers_are_refused() -> None:
    with Broker() as broker:
        assert _ask("POST", f"{broker.serve_control()}/crash", {}, Origin="http://evil")[0] == 403
        assert broker.topics() == {}


def test_it_runs_as_a_process() -> None:
    command = [sys.executable, "-m", "wirekafka.testing", "--topic", "t:3"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["wirekafka", "ready:"] and words[3] == "control"
        assert _ask("GET", words[4])[1] == {"bootstrap_servers": words[2]}
        process.terminate()
        assert process.wait(10) == 0


def test_a_group_is_held_and_described() -> None:
    with Broker(topics=["t"]) as broker:
        url = broker.serve_control()
        body = {"kind": "hold_assignment", "group": "g"}
        status, rule = _ask("POST", f"{url}/rules", body)
        assert status == 200
        consumer = broker_assigned_consumer(broker, "g")
        consumer.subscribe(["t"])
        until(consumer, lambda: _ask("GET", f"{url}/groups")[1] != [])
        (group,) = _ask("GET", f"{url}/groups")[1]
        assert (group["type"], group["members"][0]["assignment"]) == ("consumer", {})
        assert _ask("DELETE", f"{url}/rules/{rule['id']}")[0] == 200
        until(
            consumer,
            lambda: _ask("GET", f"{url}/groups")[1][0]["members"][0]["assignment"] == {"t": [0]},
        )
        consumer.close()
