"""`wirekafka conformance` on brokers of this process: honest, lying and dying ones."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import wirekafka
from tests.cli.conftest import Outcome
from tests.lying_proxy import lying
from tests.ports import free_ports
from tests.test_layout import ROOT
from wirekafka.cli.conformance import caution, command, progress
from wirekafka.cli.conformance import run as running
from wirekafka.cli.main import main
from wirekafka.client.client import Client, CliError
from wirekafka.conformance import run as playing
from wirekafka.conformance.cases import all_cases
from wirekafka.conformance.run import judge
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.errors import Error
from wirekafka.protocol.produce import ProduceResponse

FEW = "^produce/(with-acks-2|zstd|no-topics)$"
Conformance = Callable[..., Outcome]


@pytest.fixture
def conformance(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Conformance:
    """Runs the command with words, and returns what it printed."""
    monkeypatch.delenv("WIREKAFKA_BOOTSTRAP", raising=False)
    monkeypatch.setattr(running, "_PATIENCE_S", 0.2)

    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(["conformance", *words])
        printed = capfd.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker() as broker:
        yield broker


@pytest.fixture
def bootstrap(broker: wirekafka.Broker) -> Iterator[str]:
    """The address of the broker, on which nothing of a run is left."""
    yield broker.bootstrap_servers
    assert left_topics(broker) == []


def left_topics(broker: wirekafka.Broker) -> list[str | None]:
    with Client(broker.bootstrap_servers) as client:
        return [
            each.name
            for each in client.metadata().topics
            if (each.name or "").startswith(("conformance", "mine"))
        ]


def test_a_broker_that_answers_the_same_has_status_0(
    conformance: Conformance, bootstrap: str
) -> None:
    outcome = conformance(bootstrap, "--only", FEW, "--messages")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == f"{bootstrap} (1 broker), compared with Apache Kafka 4.4"
    assert lines[3].split() == ["produce", "Produce", "3", "3", "0", "0"]
    assert any(each.endswith(": 3 same, 0 different, 0 unsupported") for each in lines)
    assert "Traceback" not in outcome.err


def test_a_lying_broker_is_found(conformance: Conformance, bootstrap: str) -> None:
    def lie(response: Any) -> None:
        if isinstance(response, ProduceResponse):
            for topic in response.responses:
                for each in topic.partition_responses:
                    if each.error_code == Error.INVALID_REQUIRED_ACKS:
                        each.error_code = Error.NONE

    with lying(bootstrap, lie) as proxy:
        outcome = conformance("-b", str(proxy.address), "--only", FEW, "--wire")
    assert outcome.status == 1
    assert "2 same, 1 different, 0 unsupported" in outcome.out
    lines = outcome.out.splitlines()
    at = lines.index("produce/with-acks-2 (ProduceRequest.json)")
    assert lines[at + 1].startswith("  > Produce v3 {acks: 2, timeout_ms: 5000, topic_data: [{name")
    path = "1 Produce.responses[0].partition_responses[0].error_code"
    assert lines[at + 2 : at + 5] == [
        f"  v3-13 {path}",
        "    - expected INVALID_REQUIRED_ACKS",
        "    + got      NONE",
    ]
    assert lines[at + 5].startswith("  request, ") and "00000000  00 00" in lines[at + 6]


def test_json_is_one_document_and_the_reports_are_files(
    conformance: Conformance, bootstrap: str, tmp_path: Path
) -> None:
    junit, html = tmp_path / "report.xml", tmp_path / "report.html"
    words = ("--only", FEW, "--json", "--junit", str(junit), "--html", str(html))
    outcome = conformance(bootstrap, *words, "--prefix", "mine")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert {each["name"] for each in document["cases"]} == {
        *("produce/with-acks-2", "produce/zstd", "produce/no-topics")
    }
    assert all(each["outcome"] == "same" and each["versions"] for each in document["cases"])
    assert document["left"] == []
    assert len(ElementTree.parse(junit).getroot().findall(".//testcase")) == 3
    assert bootstrap in html.read_text()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--only", "no-such-case"], "no case is chosen"),
        (["--only", "("], "missing closing )"),
        (["--level", "none"], "no level 'none': expected one of core client, transactions,"),
        (["--as", "2.8"], "no answers of Apache Kafka 2.8 are recorded: expected 3.9, 4.3, 4.4"),
        (["--prefix", "a b"], "a prefix has 1 to 40 letters"),
        (["--prefix", ""], "a prefix has 1 to 40 letters"),
        (["--html", "/no/such/directory/x.html"], "there is no such directory"),
        (["--explain", "produce/zst"], "there is produce/zstd"),
        (["--explain", "produce/zstd", "--as", "2.8"], "no answers of Apache Kafka 2.8 are"),
        (["--explain", "produce/zstd", "--json"], "explanations are text"),
        (["--command-config", "/no/such/file"], "/no/such/file"),
    ],
)
def test_a_run_that_is_not_possible_has_status_2(
    conformance: Conformance, bootstrap: str, words: list[str], reason: str
) -> None:
    outcome = conformance(bootstrap, *words)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith("wirekafka: ") and reason in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_page_without_its_library_is_refused_before_the_run(
    conformance: Conformance, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    outcome = conformance(bootstrap, "--only", FEW, "--html", str(tmp_path / "x.html"))
    assert outcome.status == 2
    assert outcome.err.startswith("wirekafka: --html needs `pip install 'wirekafka[console]'`: ")


def test_a_broker_that_is_not_there_has_status_2(conformance: Conformance) -> None:
    (port,) = free_ports(1)
    outcome = conformance(f"127.0.0.1:{port}", "--only", FEW)
    assert outcome.status == 2
    assert outcome.err == f"wirekafka: cannot connect to 127.0.0.1:{port}: Connection refused\n"


def test_a_broker_that_dies_is_reported_in_a_line(
    conformance: Conformance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wirekafka.Broker() as broker:

        def judge_after_the_end(*arguments: Any, **options: Any) -> None:
            broker.stop()
            judge(*arguments, **options)

        monkeypatch.setattr(playing, "judge", judge_after_the_end)
        address = broker.bootstrap_servers
        outcome = conformance(address, "--only", "^produce/")
    assert outcome.status == 2 and outcome.out == ""
    left, reason = outcome.err.splitlines()
    assert left.startswith("left behind: all that begins with conformance-")
    assert reason.startswith(f"wirekafka: {address} no longer answers, after ")


def test_an_interrupted_run_leaves_nothing(
    conformance: Conformance, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(playing, "judge", interrupt)
    outcome = conformance(bootstrap, "--only", "^produce/", "--prefix", "mine")
    assert outcome.status == 130 and outcome.out == ""
    assert "interrupted: removing what begins with mine-" in outcome.err
    assert "left behind" not in outcome.err


def test_what_is_left_is_said(
    conformance: Conformance, broker: wirekafka.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "clean", lambda *arguments: ["topics: conformance-x\x1b[2J"])
    outcome = conformance(broker.bootstrap_servers, "--only", FEW, "--prefix", "other")
    assert outcome.status == 0
    assert "left behind: topics: conformance-x\\u001b[2J" in outcome.err
    assert outcome.out.endswith("Left behind\n  topics: conformance-x\\u001b[2J\n")


def test_a_cluster_with_topics_is_warned_about(conformance: Conformance) -> None:
    with wirekafka.Broker(topics=["orders", "payments"]) as broker:
        outcome = conformance(broker.bootstrap_servers, "--only", FEW)
        assert outcome.status == 0
        first, second = outcome.err.splitlines()[:2]
        assert first == "This cluster has topics: orders, payments"
        assert second.startswith("All names of the run begin with conformance-")
        with Client(broker.bootstrap_servers) as client:
            names = {each.name for each in client.metadata().topics if not each.is_internal}
        assert names == {"orders", "payments"}


def test_a_user_logs_in_with_a_file_of_properties(conformance: Conformance, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={login} username="ann" password="anns-secret";\n'
    )
    with wirekafka.Broker(users={"ann": "anns-secret"}) as broker:
        words = (broker.bootstrap_servers, "--only", FEW, "--command-config", str(path))
        outcome = conformance(*words)
        refused = conformance(*words[:-2])
    assert outcome.status == 0
    assert "3 same, 0 different" in outcome.out
    assert refused.status == 2 and refused.err.count("\n") == 1


def test_an_empty_cluster_is_not_warned_about(conformance: Conformance) -> None:
    with wirekafka.Broker() as broker:
        assert conformance(broker.bootstrap_servers, "--only", FEW).err == ""


def test_a_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ClusterUnderTest([], others=[f"t{number:02}" for number in range(12)])
    answers = iter([True, False])
    monkeypatch.setattr(typer, "confirm", lambda *arguments, **options: next(answers))
    caution.warn(target, asks=True)
    with pytest.raises(CliError, match="not run"):
        caution.warn(target, asks=True)
    caution.warn(target, asks=False)


def test_progress_is_lines_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.conformance.invented import case, different, same

    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    with progress.progress(2) as advance:
        advance(same(case("a")))
        advance(different(case("b")))
    assert capfd.readouterr().err.splitlines() == [
        "1 of 2 cases, 0 different",
        "2 of 2 cases, 1 different",
    ]


def test_a_case_is_explained_without_a_broker(conformance: Conformance) -> None:
    outcome = conformance("--explain", "produce/zstd")
    assert outcome.status == 0 and outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[:2] == [
        "produce/zstd: zstd",
        "  Produce 0+; area produce; level core client; source KIP-98",
    ]
    assert "Requests, as sent to a wirekafka broker in this process in v13" in lines
    assert any("attributes: zstd" in each for each in lines)
    assert any("UNSUPPORTED_COMPRESSION_TYPE" in each for each in lines)


def test_a_case_is_explained_with_what_a_broker_answers(
    conformance: Conformance, bootstrap: str
) -> None:
    outcome = conformance(bootstrap, "--explain", "produce/zstd", "--wire")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert f"{bootstrap} (1 broker): as Apache Kafka 4.4" in lines
    assert [each for each in lines if each.startswith("It answers in ")] == [
        "It answers in v3-6",
        "It answers in v7-13",
    ]
    assert any(each.lstrip().startswith("00000000  00 00") for each in lines)


def test_cases_are_listed_by_area_and_level(conformance: Conformance) -> None:
    outcome = conformance("--list", "--only", FEW)
    assert outcome.out.splitlines() == [
        "produce, core client: 3 cases",
        "  produce/zstd (KIP-98)",
        "  produce/with-acks-2 (ProduceRequest.json)",
        "  produce/no-topics (ProduceRequest.json)",
        "3 cases",
    ]
    listed = json.loads(conformance("--list", "--json").out)["cases"]
    assert [each["name"] for each in listed] == [each.name for each in all_cases()]


def test_cases_are_chosen_by_area_api_and_level() -> None:
    def names(*words: str) -> set[str]:
        return {each.name for each in command._chosen(*words)}

    produce = {each.name for each in all_cases() if each.api == "Produce"}
    assert names("^Produce$", "complete") == produce
    assert names("^produce/zstd$", "core") == {"produce/zstd"}
    assert names("^produce/zstd$", "security") == set()


def test_help_imports_no_case() -> None:
    program = (
        "import sys\n"
        "from wirekafka.cli.main import main\n"
        "try: main(['conformance', '--help'])\n"
        "except SystemExit: pass\n"
        "print([each for each in sys.modules if each.startswith('wirekafka.conformance')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--explain CASE" in done.stdout
