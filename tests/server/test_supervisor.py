"""What a parent passes on of its nodes' output."""

from __future__ import annotations

import asyncio
import json

import pytest

from wirekafka.server.supervisor import _json_label, _Output, _text_label


def output(chunks: list[tuple[int, bytes]], label: object) -> list[str]:
    """Feed what a process writes, by file descriptor; returns the addresses it is ready at."""
    ready: list[str] = []

    async def feed() -> None:
        protocol = _Output(ready.append, label)  # type: ignore[arg-type]
        for descriptor, data in chunks:
            protocol.pipe_data_received(descriptor, data)
        protocol.process_exited()
        await protocol.ended
        for descriptor in (1, 2):
            protocol.pipe_connection_lost(descriptor, None)

    asyncio.run(feed())
    return ready


def test_each_line_of_a_log_has_the_name_of_its_node(capfd: pytest.CaptureFixture[str]) -> None:
    chunks = [(2, b"first\nsec"), (2, b"ond\n"), (2, b"a last one without an end")]
    assert output(chunks, _text_label("broker 2")) == []
    assert capfd.readouterr().err.splitlines() == [
        "broker 2: first",
        "broker 2: second",
        "broker 2: a last one without an end",
    ]


def test_lines_of_a_json_log_stay_objects(capfd: pytest.CaptureFixture[str]) -> None:
    chunks = [(2, b'{"level": "info", "message": "ready"}\nwirekafka: in use \xff\n')]
    output(chunks, _json_label("broker 2"))
    first, second = map(json.loads, capfd.readouterr().err.splitlines())
    assert first == {"node": "broker 2", "level": "info", "message": "ready"}
    assert second == {"node": "broker 2", "message": "wirekafka: in use \ufffd"}


def test_the_ready_line_is_found_among_others_and_in_parts() -> None:
    chunks = [(1, b"some text\nwirekafka rea"), (1, b"dy: 127.0.0.1:9092\nmore\n")]
    assert output(chunks, _text_label("broker 2")) == ["127.0.0.1:9092"]
