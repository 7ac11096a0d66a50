"""The commands of docs/how-to/mirror-a-cluster.md work as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer

import wirekafka
from tests.eventually import eventually
from tests.ports import free_ports
from tests.server.serving import Serving

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "how-to" / "mirror-a-cluster.md").read_text()
SERVE, STATUS, PROMOTE = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


def run(line: str, port: int) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line.replace("127.0.0.1:9092", f"127.0.0.1:{port}"))
    assert words[0] == "wirekafka"
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_topic_is_mirrored_watched_and_promoted(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with wirekafka.Broker(topics=["orders", "payments", "other"]) as source:
        source.produce("orders", [b"tea", b"cake"])
        _, verb, *options = shlex.split(SERVE.replace("prod:9092", source.bootstrap_servers))
        assert verb == "serve" and options[:4] == ["--data", "mirror", "--listen", "127.0.0.1:9092"]
        data, listen = tmp_path / options[1], f"127.0.0.1:{port}"
        with Serving(data, *options[4:], listen=listen):
            eventually(lambda: run(STATUS, port).returncode == 0)
            eventually(
                lambda: re.search(r"orders +0 +copying +0 +2 +2 +0 ", run(STATUS, port).stdout)
            )
            assert "other" not in run(STATUS, port).stdout
            one, rest = PROMOTE.splitlines()
            assert run(one, port).stdout == "orders is promoted\n"
            assert run(rest, port).stdout == "payments is promoted\n"
            producer = Producer({"bootstrap.servers": listen, "enable.idempotence": True})
            failures: list[object] = []
            producer.produce("orders", b"salt", on_delivery=lambda error, _: failures.append(error))
            assert producer.flush(20) == 0 and failures == [None]
