"""`wirekafka serve --console`: what only a broker itself knows, its memory and its speed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.console.site import Site, console
from tests.eventually import eventually
from tests.server.serving import Serving
from tests.server.test_serve import fetch_request
from wirekafka.cli.serve import main as serve_main
from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest

MOST_MIB = 22
MOST_PAGE_MS = 200
PAGES = (
    "/",
    "/groups",
    "/queries",
    "/group?name=g7",
    "/configs",
    "/config?kind=topic&name=t7&all=1",
    "/config?kind=broker&name=1&all=1",
    "/acls",
    "/brokers",
)
PAGES_OF_TOPICS = (
    "/topics",
    "/topics/t7",
    "/topics/t7/groups",
    "/topics/t7/live",
    "/topics/t7/messages",
    "/topics/t7/producers",
    "/transactions",
    "/wire",
)


class Served:
    """A broker process with a console on a free port."""

    def __init__(self, data: Path, *arguments: str):
        self.serving = Serving(data, "--console", "0", *arguments)
        assert self.serving.process.stderr is not None
        found = None
        while found is None:
            line = self.serving.process.stderr.readline()
            assert line, "it has ended"
            found = re.search(r"The console is served at http://(\S+)/", line)
        self.site = Site(Address.parse(found[1]))
        self.bootstrap = f"127.0.0.1:{self.serving.port}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "data")
    with served.serving:
        yield served


def test_without_a_console_none_of_it_is_imported() -> None:
    code = (
        "import sys, wirekafka.server.run, wirekafka.cli.serve\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        "parts = 'wirekafka.console', 'wirekafka.client.client', 'starlette', 'uvicorn', 'jinja2'\n"
        "print([name for name in sys.modules if name.startswith((*parts, 'anyio'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_only_the_broker_knows_readers_errors_and_software(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("orders", 3)])["orders"].result()
    reader = Consumer(
        {
            "bootstrap.servers": served.bootstrap,
            "group.id": "not-used",
            "client.id": "spark-report",
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition("orders", index, 0) for index in range(3)])

    def readers() -> list[list[str]]:
        reader.poll(0.1)
        return served.site.get("/").rows("section[aria-labelledby=readers]")

    try:
        [row] = eventually(lambda: [row for row in readers() if row[0] == "spark-report"])
        assert row[1:3] == ["3", "0"]
        page = served.site.get("/")
        names = {row[0] for row in page.rows("section[aria-labelledby=software]")}
        assert "confluent-kafka-python" in names
        served.site.get("/config", kind="topic", name="no-such-topic")

        def errors() -> list[list[str]]:
            return served.site.get("/").rows("section[aria-labelledby=errors]")

        assert eventually(lambda: [row for row in errors() if row[0] == "DescribeConfigs"])
    finally:
        reader.close()


def test_budgets_of_log_directories_are_shown(tmp_path: Path) -> None:
    served = Served(tmp_path / "data", "--set", "wirekafka.disk.budget.bytes=3000000")
    topic = NewTopic("full", 1, config={"segment.bytes": "1048576", "retention.bytes": "100000000"})
    with served.serving:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        admin.create_topics([topic])["full"].result()
        producer = Producer({"bootstrap.servers": served.bootstrap})
        for _ in range(6):
            producer.produce("full", os.urandom(900_000))
            producer.flush()

        def freed() -> list[list[str]]:
            rows = served.site.get("/brokers").rows("section[aria-labelledby=budgets]")
            return [row for row in rows if row[6] not in ("0 B", "0")]

        [row] = eventually(freed)
        assert row[0].endswith("data") and row[1] == "2.9 MiB" and row[5] == "accepted"
        assert row[7] in ("0 B", "0")  # No group has a claim to it.


def test_normal_steps_of_the_protocol_are_not_among_the_errors(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result()
    member = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "steps"})
    member.subscribe(["orders"])

    def steps() -> bool:
        member.poll(0.1)
        return "JoinGroup: MEMBER_ID_REQUIRED, 1" in served.site.get("/").words("#steps")

    try:
        assert eventually(steps)
        errors = served.site.get("/").rows("section[aria-labelledby=errors]")
        assert "JoinGroup" not in {row[0] for row in errors}
    finally:
        member.close()


def test_a_broker_knows_how_far_the_source_of_a_query_is_behind(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("flights", 1)])["flights"].result()
    of_spark = "consumer-etl-0b6c6d0e-6d0a-4c4e-a2f5-5f0a7f3c1f10--17-executor-1"
    with served.serving.client() as spark, served.serving.client() as other:
        for client, client_id in ((spark, of_spark), (other, "worker-5")):
            client.receive(FetchRequest, 11, client.send(fetch_request("flights"), 11, client_id))

        def queries() -> list[list[str]]:
            return [row[:4] for row in served.site.get("/queries").rows("#queries")]

        assert eventually(lambda: queries() == [["etl--17", "0", "0 ms", "etl--17"]])
        producer = Producer({"bootstrap.servers": served.bootstrap})
        for _ in range(3):
            producer.produce("flights", b"late")
        producer.flush()
        [row] = eventually(lambda: [row for row in queries() if row[1] == "3"])
        assert row[2] != "–", "seconds behind"


def test_clients_push_no_metrics_that_a_console_alone_would_not_serve(served: Served) -> None:
    with served.serving.client() as client:
        keys = {each.api_key for each in client.call(ApiVersionsRequest(), 0).api_keys}
    assert not keys & {GetTelemetrySubscriptionsRequest.key, PushTelemetryRequest.key}


def test_the_lag_of_a_group_is_that_of_the_moment(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result()
    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()

    def row() -> list[str]:
        [found] = served.site.get("/groups").rows("#groups")
        return found

    known = ["billing", "classic", "Empty", "0", "0 ms"]
    assert eventually(lambda: row()[:5] == known, timeout_s=5)
    producer = Producer({"bootstrap.servers": served.bootstrap})
    producer.produce("orders", b"a book", partition=0)
    producer.flush()
    assert eventually(lambda: row()[3] == "1", timeout_s=5)


def test_users_log_in_to_a_secured_broker_and_to_its_schema_registry(tmp_path: Path) -> None:
    options = ("--secure", "--schema-registry", "0", "--allow-changes")
    served = Served(tmp_path / "data", *options)
    with served.serving:
        password = (tmp_path / "data-security" / "password").read_text().strip()
        assert served.site.get("/").words("h1") == "Log in"
        assert served.site.log_in("admin", "wrong").status == 401
        assert served.site.log_in("admin", password).words("h1") == "Overview"
        users = served.site.get("/users").rows("section[aria-labelledby=users]")
        assert [row[0] for row in users] == ["admin"]
        shown = eventually(lambda: _shown(served.site, "/schemas"))
        assert "READWRITE mode of the registry" in shown
        form = {"name": "orders-value", "format": "JSON", "references": "", "action": "register"}
        page = served.site.post("/schemas/register", **form, schema='{"type": "number"}')
        assert page.url.endswith("/schemas/subject?name=orders-value")
        assert page.words("section pre") == '{ "type": "number" }'


def test_tables_of_topics_are_shown_with_their_newest_rows(tmp_path: Path) -> None:
    served = Served(tmp_path / "data", "--tables", str(tmp_path / "tables"))
    with served.serving:
        options = {"wirekafka.table.mode": "key_value", "wirekafka.table.target.lag.ms": "0"}
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        admin.create_topics([NewTopic("orders", 1, config=options)])["orders"].result()
        producer = Producer({"bootstrap.servers": served.bootstrap})
        producer.produce("orders", b"a book")
        producer.flush()

        def row() -> list[str]:
            return next(iter(served.site.get("/tables").rows("#tables")), [])

        assert eventually(lambda: row()[:4] == ["orders", "running", "0", "0 ms"], timeout_s=60)
        page = served.site.get("/tables/orders")
        assert page.rows("#partitions") == [["0", "1", "0", "1", "0"]]
        [newest] = page.rows("section[aria-labelledby=newest]")
        assert newest[4] == "a book"


def test_a_listener_with_certificates_needs_a_file(tmp_path: Path) -> None:
    settings = ["listeners=SSL://127.0.0.1:0", "security.inter.broker.protocol=SSL"]
    words = [word for each in settings for word in ("--set", each)]
    with pytest.raises(ConfigError, match="needs --console-config FILE: SSL has TLS"):
        serve_main(["--data", str(tmp_path / "data"), "--console", "0", *words])


def test_a_controller_alone_has_no_console(tmp_path: Path) -> None:
    settings = ["process.roles=controller", "listeners=CONTROLLER://127.0.0.1:0"]
    settings.append("controller.quorum.voters=1@127.0.0.1:9093")
    words = [word for each in settings for word in ("--set", each)]
    with pytest.raises(ConfigError, match="only a broker has a console"):
        serve_main(["--data", str(tmp_path / "data"), "--console", "0", *words])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_console_is_small_and_fast(tmp_path: Path) -> None:
    """With 2,000 partitions and 500 groups; memory is compared with that of a broker that is asked
    the same by a console outside, and with fewer partitions, since buffers grow with them. Pages
    are got while another visitor follows a topic."""
    served = Served(tmp_path / "data")
    outside = Serving(tmp_path / "other")
    with served.serving, outside, console(f"127.0.0.1:{outside.port}") as site:
        for each in (served.site, site):
            for path in PAGES:
                each.get(path)
        added = _resident_mib(served.serving.process.pid) - _resident_mib(outside.process.pid)
        assert added < MOST_MIB
        _fill(served.bootstrap)
        eventually(lambda: served.site.get("/groups").words(".count") == "500 groups")
        followed = served.site.another().events("/topics/t7/live/events")
        assert next(followed)[0] == "at"
        for path in (*PAGES, *PAGES_OF_TOPICS):
            assert served.site.get(path).status == 200
            before = _cpu_ms(served.serving.process.pid)
            for _ in range(5):
                served.site.get(path)
            # Not the time of the clock: the machine is shared.
            took_ms = (_cpu_ms(served.serving.process.pid) - before) / 5
            assert took_ms < MOST_PAGE_MS, path
        followed.close()


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(f"t{n}", 20) for n in range(100)]).values():
        made.result()
    for number in range(500):
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"g{number}", "enable.auto.commit": False}
        )
        partitions = [TopicPartition(f"t{number % 100}", index, 0) for index in range(4)]
        consumer.commit(offsets=partitions, asynchronous=False)
        consumer.close()


def _resident_mib(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _shown(site: Site, path: str) -> str:
    page = site.get(path)
    return page.words() if page.status == 200 else ""


def test_a_stop_ends_live_output_without_a_warning_in_the_log(served: Served) -> None:
    events = served.site.events("/wire/events?client=anybody")
    next(events)
    served.serving.process.send_signal(signal.SIGTERM)
    _, log = served.serving.output()
    assert served.serving.process.returncode == 0
    lines = log[log.index("Stopping") :].splitlines()[1:]
    assert lines
    assert [line for line in lines if " INFO wirekafka." not in line] == []
    events.close()
