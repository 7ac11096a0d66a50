"""Schema registries side by side: `python -m benchmarks.registry [--schemas 10000] [--alone]`.

wirekafka's registry (`schema-registry` beside a broker, which keeps all in a topic and checks the
compatibility of each new schema) and the one that franz-go has for tests (in the memory of a
program in Go, without such checks; a registration there takes time by the number of schemas, so
that `--schemas 1000` is as much as it can be asked). The same client sends the same requests to
both, in turns:

- register: a new schema of ten fields, under a subject of its own;
- evolve: the next version of a subject, which wirekafka's compares with the version before;
- look up: POST of a schema that is registered;
- by id: GET of a schema by its id.

Requests a second and CPU ms for each, of the registry's process; then its memory, and, of
wirekafka's, the seconds until a new instance has read all schemas and answers. Needs Linux and Go.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from compat_tests import registry_programs
from spark_examples.live_broker import live_broker

THREADS = 4
ROUNDS = 4
_JSON = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
_SERVES = "wirekafka schema registry: "


class Registry:
    """A running registry and what it has been asked."""

    def __init__(self, name: str, process: subprocess.Popen[str], url: str):
        self.name = name
        self.rates: dict[str, list[float]] = {}
        self.cpu_ms: dict[str, list[float]] = {}
        self._process = psutil.Process(process.pid)
        self._address = urlsplit(url).netloc

    @property
    def mib(self) -> float:
        return float(self._process.memory_info().rss) / (1 << 20)

    def run(
        self, case: str, numbers: range, request: Callable[[int], tuple[str, str, Any]]
    ) -> None:
        """Send one request for each number, by several connections at once."""
        before, start = self._cpu_s(), time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            parts = [numbers[at::THREADS] for at in range(THREADS)]
            list(pool.map(lambda part: self._send(part, request), parts))
        took, count = time.perf_counter() - start, len(numbers)
        self.rates.setdefault(case, []).append(count / took)
        self.cpu_ms.setdefault(case, []).append((self._cpu_s() - before) / count * 1_000)

    def _send(self, numbers: range, request: Callable[[int], tuple[str, str, Any]]) -> None:
        connection = http.client.HTTPConnection(self._address)
        for number in numbers:
            method, path, body = request(number)
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, _JSON if data else {})
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, (path, response.status, text)
        connection.close()

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def schema(number: int, version: int = 1) -> dict[str, str]:
    fields = [{"name": f"field{at}", "type": "string", "doc": f"of {number}"} for at in range(9)]
    fields += [{"name": f"more{at}", "type": "long", "default": at} for at in range(version)]  # type: ignore[dict-item]
    return {"schema": json.dumps({"type": "record", "name": f"R{number}", "fields": fields})}


def registered(number: int) -> tuple[str, str, Any]:
    return "POST", f"/subjects/subject{number}/versions", schema(number)


def evolved(number: int) -> tuple[str, str, Any]:
    return "POST", f"/subjects/subject{number}/versions", schema(number, 2)


def looked_up(number: int) -> tuple[str, str, Any]:
    return "POST", f"/subjects/subject{number}", schema(number)


def by_id(number: int) -> tuple[str, str, Any]:
    return "GET", f"/schemas/ids/{number + 1}", None


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A registry's process and its URL, which it prints first."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip().removeprefix(_SERVES)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schemas", type=int, default=10_000, help="how many")
    parser.add_argument("--alone", action="store_true", help="without the other registry")
    arguments = parser.parse_args()
    count = arguments.schemas
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        bootstrap = running.enter_context(live_broker(Path(scratch, "data")))
        own = [sys.executable, "-m", "wirekafka", "schema-registry", bootstrap, "--port", "0"]
        commands = {"wirekafka": own}
        if not arguments.alone:
            commands["franz-go's fake"] = registry_programs.go("fake")
        registries = [
            Registry(name, *running.enter_context(started(command)))
            for name, command in commands.items()
        ]
        measure(registries, count)
        start = time.perf_counter()
        process, url = running.enter_context(started(own))
        Registry("", process, url).run("", range(count - 1, count), by_id)
        print(f"a new instance has read {count} schemas after {time.perf_counter() - start:.1f} s")


def measure(registries: list[Registry], count: int) -> None:
    step = count // ROUNDS
    for at in range(0, count - step + 1, step):
        for registry in registries:
            registry.run("register", range(at, at + step), registered)
            registry.run("look up", range(at, at + step), looked_up)
            registry.run("by id", range(at, at + step), by_id)
    for registry in registries:
        registry.run("evolve", range(step), evolved)
        print(f"{registry.name}: {registry.mib:.0f} MiB with {count} schemas")
        for case, rates in registry.rates.items():
            cpu_ms = statistics.median(registry.cpu_ms[case])
            print(f"  {case:9} {statistics.median(rates):7.0f}/s  {cpu_ms:6.2f} ms of CPU")


if __name__ == "__main__":
    main()
