"""The search for planted secrets finds them wherever a node could write them."""

from __future__ import annotations

import base64
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.planted_secrets import planted
from tests.secret_search import SecretSearch, search_processes, search_responses, searched_logs
from wirekafka.protocol.describe_cluster import DescribeClusterRequest

SECRET = planted("here")


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_secret_is_found_in_every_encoding(before: str) -> None:
    text = f"{before}{SECRET} and more".encode()
    found = SecretSearch().excerpt
    encodings = text, text.decode().encode("utf-16-le"), text.hex().encode(), base64.b64encode(text)
    assert all(found(b"around " + each + b" it") for each in encodings)
    assert found(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert not found(base64.b64encode(b"nothing planted here, and no secret"))


def test_a_secret_is_found_in_a_log_line_and_in_a_traceback() -> None:
    search = SecretSearch()
    logger = logging.getLogger("wirekafka.test")
    with searched_logs(search):
        logger.error("all is well")
        assert not search.leaks
        logger.error("the password is %s", SECRET)
        try:
            raise ValueError(SECRET)
        except ValueError:
            logger.exception("it failed")
    assert {SECRET in leak for leak in search.leaks} == {True}
    assert len(search.leaks) == 4, "two lines, each as text and as JSON"


def test_a_secret_is_found_in_a_response(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    search = SecretSearch()
    search_responses(search, monkeypatch)
    kafka = InProcessBroker(tmp_path, ManualClock(), **{"advertised.listeners": _named("host")})
    kafka.call(DescribeClusterRequest(), 0)
    assert not search.leaks
    kafka.stop()
    kafka = InProcessBroker(tmp_path, ManualClock(), **{"advertised.listeners": _named(SECRET)})
    kafka.call(DescribeClusterRequest(), 0)
    assert len(search.leaks) == 1 and SECRET in search.leaks[0]
    kafka.stop()


def test_a_secret_is_found_in_a_file_of_a_node(tmp_path: Path) -> None:
    search = SecretSearch()
    for name in ("data/orders-0", "data/__cluster_metadata-0", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(SECRET)
    (tmp_path / "data" / "meta.properties").touch()
    search.look_into_logs_of_partitions(tmp_path)
    [leak] = search.leaks
    assert "orders-0/file" in leak


def test_a_secret_is_found_in_the_log_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    search = SecretSearch()
    search_processes(search, monkeypatch)
    program = "import sys; print(sys.argv[1]); print(sys.argv[2], file=sys.stderr)"
    for printed, logged in ((SECRET, "nothing"), ("nothing", SECRET)):
        subprocess.run(
            [sys.executable, "-c", program, printed, logged], capture_output=True, check=True
        )
    assert len(search.leaks) == 1, "what a program prints is not its log"


def test_a_generated_secret_is_found_too() -> None:
    search = SecretSearch()
    search.add("Generated")
    assert search.excerpt(base64.b64encode(b"a Generated password"))


def _named(host: str) -> str:
    return f"PLAINTEXT://{host}:9092"
