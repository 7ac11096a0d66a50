"""The commands and the program in docs/how-to/secure.md work as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import confluent_kafka

from compat_tests.java_tools import JavaTools
from tests.ports import free_ports
from wirekafka.security.client_settings import ClientAccess, confluent

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "how-to" / "secure.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def test_the_commands_secure_a_broker_for_one_user(tmp_path: Path, java_tools: JavaTools) -> None:
    [port] = free_ports(1)
    lines = [
        shlex.split(line.replace("127.0.0.1:9093", f"127.0.0.1:{port}"))
        for language, block in BLOCKS
        if language == "sh"
        for line in block.splitlines()
    ]
    serve, *commands = lines
    assert serve[:2] == ["wirekafka", "serve"] and len(commands) == 3
    broker = subprocess.Popen(
        [sys.executable, "-m", *serve], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert broker.stdout is not None and "ready" in broker.stdout.readline()
        for program, *arguments in commands:
            own = [sys.executable, "-m", program, *arguments]
            command = own if program == "wirekafka" else java_tools.command(program, *arguments)
            subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
        assert produce(tmp_path, port, "orders") is None
        refusal = produce(tmp_path, port, "payments")
        assert refusal is not None
        assert refusal.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    finally:
        broker.terminate()
        broker.wait(20)


def produce(directory: Path, port: int, topic: str) -> confluent_kafka.KafkaError | None:
    """The error with which alice's record is refused, None for success."""
    authority = directory / "data-security" / "ca.pem"
    access = ClientAccess(
        bootstrap_servers=f"127.0.0.1:{port}",
        user="alice",
        password="secret",
        ca_pem=authority.read_text(),
        ca_file=str(authority),
    )
    errors: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(confluent(access))
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0]


def test_the_program_runs(tmp_path: Path) -> None:
    [program] = [block for language, block in BLOCKS if language == "python"]
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=60, check=True)
