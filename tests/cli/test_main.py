"""The `wirekafka` command: help, versions, and failures in one line."""

import json
import socket
import subprocess
import sys
import threading
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.ports import free_ports
from wirekafka import __version__
from wirekafka.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_every_command(run):
    listed = run("--help").out
    assert all(f"  {name} " in listed for name in COMMANDS)


def test_the_version_is_the_packages(run):
    assert run("--version").out == f"wirekafka {__version__}\n"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project.get("version", __version__) == __version__


def test_serve_starts_without_the_command_line_library():
    script = (
        "import sys, wirekafka.cli.main as m\n"
        "try: m.main(['serve', '--help'])\n"
        "except SystemExit: print({'typer', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_serve_imports_no_module_of_capabilities_that_are_off_by_default():
    off = (
        "wirekafka.config.checks.tiered_topic",
        "wirekafka.security.certificates",
        "wirekafka.security.sasl.client_assertion",
        "wirekafka.security.sasl.token_endpoint",
        "wirekafka.server.connections.request_log",
        "wirekafka.server.peers.node_token",
        "wirekafka.server.peers.ticket_renewal",
        "wirekafka.server.tabling",
        "wirekafka.server.tiering",
        "wirekafka.tiered",
    )
    for name in off:
        assert find_spec(name), f"there is no module {name} any more"
    script = (
        "import sys, wirekafka.cli.serve, wirekafka.server.run\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        f"print([name for name in sys.modules if name.startswith({off})])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topics", "list", "-b", "nonsense"), "bad address 'nonsense': expected HOST:PORT"),
        (("topics", "list", "-b", "host:99999"), "bad address 'host:99999'"),
        (("topics", "list", "-b", "no-such-host.invalid:9092"), "cannot connect to no-such-host"),
        (("topics", "alter", "t", "-c", "novalue"), "bad --config 'novalue': expected KEY=VALUE"),
        (("configs", "describe", "planet", "x"), "no kind 'planet' of configuration"),
        (("configs", "describe", "broker", "77"), "no broker 77 in the cluster"),
        (("consume", "no-such-topic"), "no topic no-such-topic"),
        (("produce", "t", "-z", "brotli"), "no compression 'brotli'"),
        (("dump-log", "/no/such/file.log"), "cannot read /no/such/file.log: no such file"),
        (("serve", "--set", "novalue"), "--set novalue: expected KEY=VALUE"),
        (
            ("serve", "--set", "num.partitions=many"),
            "Invalid value many for configuration num.part",
        ),
        (("serve", "--config", "/no/such/file"), "cannot read /no/such/file: No such file"),
    ],
)
def test_failures_are_one_line(run, words, complaint):
    outcome = run(*words)
    assert outcome.status == 1
    assert complaint in outcome.err
    assert outcome.err.startswith("wirekafka: ")
    assert outcome.err.count("\n") == 1


def test_a_closed_port_is_one_line(run):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        outcome = run("topics", "list", "-b", f"127.0.0.1:{port}")
    assert outcome.err == f"wirekafka: cannot connect to 127.0.0.1:{port}: Connection refused\n"


@pytest.mark.parametrize("words", [["-b"], ["--bootstrap-server"], []])
def test_the_console_takes_bootstrap_brokers_as_other_commands_or_by_itself(run, words):
    [port] = free_ports(1)
    outcome = run("console", "--port", "0", *words, f"127.0.0.1:{port}")
    assert outcome.err == f"wirekafka: cannot connect to 127.0.0.1:{port}: Connection refused\n"


def test_a_server_that_is_no_kafka_broker_is_reported_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        outcome = run("topics", "list", "-b", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert outcome.status == 1
    assert "does not speak Kafka's protocol" in outcome.err


def test_a_closed_output_pipe_is_no_traceback(run, topic, bootstrap):
    run("produce", topic, given="x" * 60000 + "\n" + "y\n" * 1000)
    done = subprocess.run(
        f"{sys.executable} -m wirekafka consume {topic} -f beginning -e -b {bootstrap} | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


def test_dump_log_prints_batches_and_records(run, topic, data_directory):
    run("produce", topic, "-p", "0", given="hello\n")
    path = data_directory / f"{topic}-0" / f"{0:020}.log"
    [batch] = [json.loads(line) for line in run("dump-log", str(path), "--json").out.splitlines()]
    assert batch["records"][0]["value"] == "hello"
    assert "value: hello" in run("dump-log", str(path)).out


def test_dump_log_decodes_internal_records(run, data_directory):
    path = data_directory / "__cluster_metadata-0" / f"{0:020}.log"
    assert "RegisterBrokerRecord" in run("dump-log", str(path)).out
