"""Schema registries as processes that can be killed, and writers that register without end."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.ports import free_ports
from tests.registry.servers import ask
from wirekafka.client.client import Client
from wirekafka.registry.instance.topic import PARTITION, TopicReader, stable_end

READY = "wirekafka schema registry: "


class RegistryProcess:
    """An instance at one port, which can be killed and started again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        [self.port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "wirekafka", "schema-registry", self._bootstrap]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line

    def kill(self) -> None:
        """As `kill -9`."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    @property
    def leads(self) -> bool:
        """A request that was forwarded is not forwarded again: only the leader serves it."""
        body = {"compatibility": "BACKWARD"}
        return ask(self.url, "PUT", "/config", body, X_Forward="true").status == 200


@dataclass
class Writers:
    """Threads that register schemas under ever new subjects at some of the instances."""

    prefix: str
    urls: list[str]
    acknowledged: dict[str, int] = field(default_factory=dict)
    """The id that was returned, by subject."""
    failures: int = 0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._should_stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            thread = threading.Thread(target=self._write, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._should_stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        while not self._should_stop.is_set():
            number = next(self._numbers)
            self._register(f"{self.prefix}-{number}-value", number)

    def _register(self, subject: str, number: int) -> None:
        body = schema_of(subject)
        for attempt in itertools.count(number):
            url = self.urls[attempt % len(self.urls)]
            try:
                answer = ask(url, "POST", f"/subjects/{subject}/versions", body)
            except OSError:
                pass
            else:
                if answer.status == 200:
                    self.acknowledged[subject] = answer.body["id"]
                    return
                assert answer.status == 500, answer
            self.failures += 1
            if self._should_stop.wait(0.1):
                return


def schema_of(subject: str) -> dict[str, str]:
    """A schema that no other subject has."""
    text = json.dumps({"title": subject, "type": "object"}, separators=(",", ":"))
    return {"schema": text, "schemaType": "JSON"}


def stored_texts(bootstrap: str) -> dict[int, set[str]]:
    """All texts that were ever stored with an id, from the topic's records."""
    found: dict[int, set[str]] = defaultdict(set)
    for value in stored_values(bootstrap):
        if "schema" in value:
            found[value["id"]].add(value["schema"])
    return found


def stored_values(bootstrap: str) -> list[dict[str, Any]]:
    """The values of the topic's committed records."""
    with Client(bootstrap) as client:
        end = stable_end(client, "_schemas")
        reader = TopicReader(client, "_schemas")
        found = []
        while reader.position < end:
            found += [json.loads(each.entry.value) for each in reader.read() if each.entry.value]
        assert PARTITION == 0
        return found
