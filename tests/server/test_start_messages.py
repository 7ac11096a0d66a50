"""What a start prints and logs: who has started where, and why one has not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.server.serving import Serving


def start_line(errors: str) -> str:
    (line,) = (line for line in errors.splitlines() if " is broker" in line)
    return line.partition(": ")[2]


def test_the_start_line_has_version_ids_directories_and_what_each_listener_advertises(
    tmp_path: Path,
) -> None:
    paths = f"{tmp_path}/a,{tmp_path}/b"
    listeners = ("--listen", "INSIDE://127.0.0.1:0", "--listen", "PLAINTEXT://127.0.0.1:0")
    settings = (
        "listener.security.protocol.map=INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name=INSIDE",
        "advertised.listeners=INSIDE://127.0.0.1:0,PLAINTEXT://broker.example:9092",
    )
    words = [word for text in settings for word in ("--set", text)]
    lines = []
    for _ in range(2):
        with Serving(Path(paths), "--cluster-id", "mine", *listeners, *words, listen="") as broker:
            port = broker.port
            assert broker.stop() == 0
        assert broker.ready == f"wirekafka ready: 127.0.0.1:{port}"
        lines.append(start_line(broker.errors))
    first, second = lines
    assert first.startswith("wirekafka 0.1.0 is broker and controller 1 of cluster mine;")
    assert f"; log directories: {tmp_path}/a (new), {tmp_path}/b (new); listeners: " in first
    assert f"; log directories: {tmp_path}/a, {tmp_path}/b; listeners: " in second
    assert f"INSIDE (PLAINTEXT) at 127.0.0.1:{port}, advertised as 127.0.0.1:{port}, " in second
    assert second.endswith(", advertised as broker.example:9092")


@pytest.mark.parametrize(
    "option, purpose", [("--listen", ""), ("--metrics", " for --metrics"), ("--console", "")]
)
def test_an_address_in_use_is_named_with_what_it_was_for(
    tmp_path: Path, option: str, purpose: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with Serving(
            tmp_path / "data",
            *(option, address),
            listen="" if option == "--listen" else "127.0.0.1:0",
        ) as broker:
            assert broker.stop() == 1
    purpose = " for the console" if option == "--console" else purpose
    last = broker.errors.strip().splitlines()[-1]
    assert last == f"wirekafka: cannot listen at {address}{purpose}: Address already in use"
    # A broker that was in service by then has stopped cleanly.
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists() == (option == "--console")


def test_another_node_id_is_reported_with_the_right_one(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as broker:
        assert broker.port and broker.stop() == 0
    with Serving(tmp_path / "data", "--set", "node.id=5") as broker:
        assert broker.stop() == 1
    reason = "belongs to node 1, and this is node 5: set node.id=1, or use another directory"
    assert broker.errors == f"wirekafka: {tmp_path}/data {reason}\n"


def test_misspelt_options_of_files_and_the_environment_get_similar_names_proposed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hour=5\nsomething.else=1\n")
    environment = {"KAFKA_NUM_PARTITONS": "3"}
    words = ("--config", str(file), "--set", "wirekafka.metric.listener=0")
    with Serving(tmp_path / "data", *words, environment=environment) as broker:
        assert broker.port and broker.stop() == 0
    ignored = "is not a Kafka option and is ignored"
    hour, partitions = "'log.retention.hours'", "'num.partitions'"
    metrics = "'wirekafka.metrics.listener'"
    assert f"log.retention.hour (from {file}) {ignored}; did you mean {hour}" in broker.errors
    assert f"something.else (from {file}) {ignored}\n" in broker.errors
    assert f"KAFKA_NUM_PARTITONS) {ignored}; did you mean {partitions}" in broker.errors
    assert f"wirekafka.metric.listener (from --set) {ignored}; did you mean {metrics}" in (
        broker.errors
    )


def test_equal_warnings_of_a_broker_are_counted(tmp_path: Path) -> None:
    from wirekafka.cli import serve
    from wirekafka.server.equal_lines import EqualLines

    handlers: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("logging.basicConfig", lambda **given: handlers.extend(given["handlers"]))
        for form in ("text", "json"):
            serve._log_to_stderr("info", form)
    assert len(handlers) == 2
    for handler in handlers:
        assert [type(each) for each in handler.filters] == [EqualLines]  # type: ignore[attr-defined]
