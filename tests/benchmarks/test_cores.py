"""The benchmark of several brokers: what its clients count, and its estimates."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from benchmarks import cores
from benchmarks.cores import Case, Figures, Row, Stream, Work


def test_responses_are_counted_however_they_are_split() -> None:
    responses = [b"\0\0\0\x05hello", b"\0\0\0\x04abcd", b"\0\0\x01\0" + b"x" * 256]
    whole = b"".join(responses)
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = Stream(server.getsockname(), b"again", 1, memoryview(bytearray(1024)))
        accepted, _ = server.accept()
        with accepted:
            for size in (1, 3, 7, len(whole)):
                parts = [whole[at : at + size] for at in range(0, len(whole), size)]
                found = []
                for part in parts:
                    accepted.sendall(part)
                    found.append(stream.receive())
                assert sum(done for done, _ in found) == 3
                assert sum(size_bytes for _, size_bytes in found) == len(whole)
                answered = b""
                while len(answered) < 15:
                    answered += accepted.recv(15)
                assert answered == b"again" * 3, "each response is followed by a request"
        stream.close()


def test_estimates_follow_from_the_cpu_of_each_request() -> None:
    runs = [Figures(10_000.0, 2.0, cpu, 0.5) for cpu in (0.1, 0.2, 0.9)]
    row = Row("case", "wirekafka, 2 brokers", 2, runs)
    assert row.middle("us_per_request") == pytest.approx(20)
    assert row.middle("ms_per_mb") == pytest.approx(100)
    assert cores.estimate(row, 8) == pytest.approx(400_000)
    single = Row("case", "wirekafka", 1, runs)
    assert [line.split(" | ")[1] for line in list(cores.estimates([single, row]))[2:]] == [
        "wirekafka, 2 brokers"
    ]


def test_connections_are_with_the_leaders_of_their_partitions(tmp_path: Path) -> None:
    case = Case(Work("mixed", records=2, depth=2, fetches=True), 2, 4)
    with cores.wirekafka(2, tmp_path) as subject:
        requests = cores.prepared(subject, case)
        assert [each.is_fetch for each in requests] == [False, True] * 2
        assert requests[0].address == requests[1].address != requests[2].address
        assert requests[2].address == requests[3].address
        figures = cores.measure(subject, case, 0.3, ())
    assert figures.requests_per_s > 0 and figures.mb_per_s > 0 and figures.cores > 0
