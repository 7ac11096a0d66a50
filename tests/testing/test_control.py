"""The control port: the same faults, from outside and in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.testing.clients import send
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
        status, rule = _ask("POST", f"{url}/rules", {
            "kind": "fail", "api": "Produce", "error": "INVALID_TIMESTAMP", "topic": "t"})
        assert status == 200
        assert send("confluent-kafka", broker, "t") == "INVALID_TIMESTAMP"
        assert _ask("GET", f"{url}/rules/{rule['id']}")[1]["hits"] == 1
        assert _ask("DELETE", f"{url}/rules/{rule['id']}")[0] == 200
        assert send("confluent-kafka", broker, "t") is None
        (first, second) = _ask("GET", f"{url}/requests?api=Produce")[1]
        assert (first["errors"], second["errors"]) == (["INVALID_TIMESTAMP"], [])


def test_time_and_life_are_in_its_hands() -> None:
    with Broker(topics=["t"]) as broker:
        url = broker.serve_control()
        before = _ask("GET", f"{url}/clock")[1]["now_ms"]
        assert _ask("POST", f"{url}/clock", {"hours": 1})[1]["now_ms"] >= before + 3_600_000
        assert _ask("POST", f"{url}/topics", {"name": "u", "partitions": 2})[0] == 200
        assert _ask("POST", f"{url}/crash")[0] == _ask("POST", f"{url}/restart")[0] == 200
        assert broker.topics() == {"t": 1, "u": 2}
        assert _ask("POST", f"{url}/reset")[0] == 200
        assert broker.topics() == {"t": 1}


@pytest.mark.parametrize(("path", "body", "status", "message"), [
    ("nothing", {}, 404, "there are GET /"),
    ("rules", {"kind": "break"}, 400, "say one of fail"),
    ("rules", {"kind": "drop", "api": "Produces"}, 400, "'Produce'"),
    ("rules", {"kind": "drop"}, 400, "api"),
    ("rules", [], 400, "JSON object"),
    ("rules/7/release", {}, 404, "no rule 7"),
    ("clock", {"do": "stop"}, 400, "advance, freeze or thaw"),
])
def test_a_mistake_is_told(path: str, body: Any, status: int, message: str) -> None:
    with Broker() as broker:
        answer = _ask("POST", f"{broker.serve_control()}/{path}", body)
        assert answer[0] == status and message in answer[1]["error"]


def test_a_browser_is_kept_out() -> None:
    with Broker() as broker:
        assert _ask("POST", f"{broker.serve_control()}/crash", {}, Origin="http://evil")[0] == 403
        assert broker.topics() == {}


def test_it_runs_on_its_own() -> None:
    command = [sys.executable, "-m", "wirekafka.testing", "--topic", "t:3"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["wirekafka", "ready:"] and words[3] == "control"
        assert _ask("GET", words[4])[1] == {"bootstrap_servers": words[2]}
        process.terminate()
        assert process.wait(10) == 0
