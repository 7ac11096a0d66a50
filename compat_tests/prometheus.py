"""A real Prometheus that scrapes nodes as an operator would set it up, and answers queries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from compat_tests.apache_kafka import end, started
from tests.eventually import eventually
from tests.ports import free_ports

PROGRAM = shutil.which("prometheus")
_EVERY = "1s"
_NAN = "NaN"


class Target(NamedTuple):
    """HOST:PORT of a metrics listener, and the labels that Prometheus is to add."""

    address: str
    labels: Mapping[str, str]


class Prometheus:
    """A running Prometheus, by its HTTP API."""

    def __init__(self, address: str):
        self._url = f"http://{address}/api/v1"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that the expression has now, without those that are not a number."""
        data = self._get("query", query=expression)
        assert data["resultType"] == "vector", data
        found: list[dict[str, Any]] = data["result"]
        return [series for series in found if series["value"][1] != _NAN]

    def value(self, expression: str) -> float | None:
        """The only value that the expression has now, if it has any."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def scrape_errors(self) -> dict[str, str]:
        """What was wrong with the last scrape of each target; empty where nothing was."""
        active = self._get("targets", state="active")["activeTargets"]
        return {target["labels"]["instance"]: target["lastError"] for target in active}

    def _get(self, path: str, **parameters: str) -> Any:
        with urlopen(f"{self._url}/{path}?{urlencode(parameters)}", timeout=20) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(directory: Path, targets: Sequence[Target]) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes the targets every second, with its data in `directory`."""
    assert PROGRAM is not None
    directory.mkdir()
    scraped = [{"targets": [target.address], "labels": dict(target.labels)} for target in targets]
    # YAML includes JSON.
    config = {
        "global": {"scrape_interval": _EVERY, "scrape_timeout": _EVERY},
        "scrape_configs": [{"job_name": "kafka", "static_configs": scraped}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    process = started(
        [
            PROGRAM,
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address={address}",
        ],
        directory,
    )
    try:
        found = Prometheus(address)
        eventually(lambda: len(found.query("up == 1")) == len(targets), timeout_s=60)
        yield found
    finally:
        end(process)
