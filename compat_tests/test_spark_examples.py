"""Each Spark example runs on small data, or reports in one sentence why it cannot."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas
import pyspark
import pytest
from confluent_kafka import Producer

from compat_tests.conftest import NewTopicName
from compat_tests.spark_session import JVM, environment
from spark_examples import session
from tests.repetitions import swept

# PySpark 4.0's own, with pandas 3.
pytestmark = pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")

ROOT = Path(__file__).resolve().parent.parent

# In Spark 3 a timer set exactly at the watermark fires with the next watermark.
GONE = r"\d+" if pyspark.__version__.startswith("3.") else "341"
EXAMPLES = {
    "backfill": ("--rows 6000", "backfill: 2998 flights by offsets, 1639 by timestamps"),
    "streaming_etl": (
        "--rows 2000",
        "streaming_etl: 2000 flights, 4 dead letters, 41 windows closed",
    ),
    "weather_join": (
        "--rows 2500",
        "weather_join: 2500 flights joined, 2406 of them with wind known",
    ),
    "plane_dimension": ("--rows 2000", "plane_dimension: 2000 flights, 1671 with a known plane"),
    "turnaround": ("--rows 3000", f"turnaround: 1562 turnarounds, {GONE} aircraft gone"),
    "round_trip": (
        "--rows 3000",
        "round_trip: 2995 flights there and back, in order for each aircraft",
    ),
    "exactly_once": (
        "--rows 2400",
        "exactly_once: 462 late flights, each once; Spark's own sink repeated [1-9]",
    ),
    "live_view": ("--rows 600 --speed 30000", r"live_view: 600 flights seen, \d+ pictures drawn: "),
}
"""Options, and how the last line begins: the same figures with Apache Kafka (`--reference`)."""

READ_ONE = {"backfill": "--topics", "streaming_etl": "--topic", "turnaround": "--topic"}
READ_ONE |= {"live_view": "--topic", "weather_join": "--topics", "plane_dimension": "--topics"}


def in_ci(*names: str) -> list[Any]:
    """The named examples; all of them in a campaign, since each needs one to three JVMs."""
    return [
        pytest.param(name, marks=() if name in names else pytest.mark.campaign) for name in EXAMPLES
    ]


@pytest.fixture(autouse=True)
def local_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads of this machine, and no session left to the next test."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for name, value in environment("local[2]").items():
        monkeypatch.setenv(name, value)
    yield
    active = session.SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def run(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run an example within this process, where the JVM is warm after the first."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    session.run(name, import_module(f"spark_examples.{name}").main)


def exit_message(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        run(name, monkeypatch, *arguments)
    return str(ended.value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(
    name: str,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    options, last_line = EXAMPLES[name]
    run(name, monkeypatch, bootstrap, *options.split())
    assert re.match(last_line, capfd.readouterr().out.splitlines()[-1])
    if name == "live_view":
        assert (tmp_path / "live.png").read_bytes().startswith(b"\x89PNG")


def test_a_year_of_flights_is_analysed_from_a_directory_without_a_broker(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run("stored_year", monkeypatch, "--rows", "3000")
    lines = capfd.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("2013-")]) == 12
    assert re.match(r"stored_year: 3000 flights, 2\d\d from December on", lines[-1])


def test_avro_of_two_versions_is_read_with_the_schemas_of_a_registry(tmp_path: Path) -> None:
    """In a process of its own, whose JVM has Spark's reader of Avro."""
    done = example_process("registered_schemas", ["--rows", "2000"], tmp_path, "local[2]")
    assert done.returncode == 0, done.stderr[-2000:]
    last_line = done.stdout.splitlines()[-1]
    assert last_line == "registered_schemas: 2000 flights, 2 versions of their schema"


@pytest.mark.skipif(
    not pyspark.__version__.startswith("4.0."), reason="the jar of Iceberg is for Spark 4.0"
)
def test_a_topic_is_queried_as_a_table(tmp_path: Path) -> None:
    """In a process of its own, whose JVM has Iceberg."""
    done = example_process("topic_table", ["--rows", "2000"], tmp_path, "local[2]")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "topic_table: 2000 flights in a table of 3 days"


@pytest.mark.campaign
def test_a_table_is_backfilled_by_executors_and_continued_by_the_broker(tmp_path: Path) -> None:
    options = ["--rows", "2000", "--part-bytes", "4096"]
    done = example_process("table_backfill", options, tmp_path, "local[2]")
    assert done.returncode == 0, done.stderr[-2000:]
    last_line = done.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"table_backfill: 2000 rows in \d+ commits, and 10 by the broker", last_line
    )


@pytest.mark.skipif(
    int(pandas.__version__.split(".")[0]) >= 3,
    reason="PySpark 4.0's applyInPandasWithState fails by itself with pandas 3",
)
def test_turnarounds_by_the_state_of_spark_3(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run("turnaround", monkeypatch, bootstrap, "--rows", "3000", "--with-pandas-state")
    # In Spark 3 a timer set exactly at the watermark fires with the next watermark.
    last_line = capfd.readouterr().out.splitlines()[-1]
    assert re.match(r"turnaround: 1562 turnarounds, \d+ aircraft gone", last_line)


@pytest.fixture
def cluster_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Executors have the options of the other tests' JVMs; their files are removed."""
    (tmp_path / "spark-defaults.conf").write_text(f"spark.executor.defaultJavaOptions {JVM}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    left = Path(pyspark.__file__).with_name("work")
    before = set(left.glob("app-*"))
    yield
    for directory in set(left.glob("app-*")) - before:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("cluster_settings")
@pytest.mark.parametrize("name", in_ci("turnaround"))
def test_an_example_runs_unchanged_on_a_cluster(name: str, bootstrap: str, tmp_path: Path) -> None:
    """Executors are other processes, with connections of their own."""
    options, last_line = EXAMPLES[name]
    done = example_process(name, [bootstrap, *options.split()], tmp_path, "local-cluster[2,1,1024]")
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.match(last_line, done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", swept(EXAMPLES, every=4))
def test_a_wrong_address_is_reported_in_one_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = exit_message(name, monkeypatch, "127.0.0.1:1", "--rows", "10")
    assert said == f"{name}: no broker answers at 127.0.0.1:1."


@pytest.mark.parametrize("name", swept(READ_ONE, every=3))
def test_a_missing_topic_is_reported_in_one_sentence(
    name: str, bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = f"{unique},{unique}" if name in ("weather_join", "plane_dimension") else unique
    said = exit_message(name, monkeypatch, bootstrap, READ_ONE[name], topics)
    assert said == f"{name}: the topic {unique} does not exist."


def test_a_missing_topic_of_the_demo_is_reported_in_one_sentence(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    said = exit_message("flight_delays", monkeypatch, bootstrap, "--flights", unique)
    assert said == "flight_delays: the topic does not exist."
    assert "\tat " not in capfd.readouterr().err


@pytest.mark.parametrize("name", swept(READ_ONE, every=3))
def test_a_schema_that_does_not_fit_is_reported_in_one_sentence(
    name: str, bootstrap: str, new_topic: NewTopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    # Without a log: the producer may outlive the broker, and would log after pytest's last line.
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b'{"temperature": 21}', b"key", timestamp=1_357_034_400_000)
    assert producer.flush(30) == 0
    topics = f"{topic},{topic}" if name in ("weather_join", "plane_dimension") else topic
    options: list[Any] = [READ_ONE[name], topics]
    said = exit_message(name, monkeypatch, bootstrap, *options)
    assert "\n" not in said and topic in said
    assert re.search(r"(does not fit|fits) the schema", said), said


@pytest.mark.parametrize("name", in_ci("backfill"))
def test_a_missing_jar_is_reported_in_one_sentence(
    name: str, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_KAFKA_JARS", str(tmp_path / "no.jar"))
    done = example_process(name, [bootstrap, "--rows", "300"], tmp_path, "local[2]")
    assert done.returncode == 1
    assert done.stderr == (f"{name}: Spark was started without the Kafka connector's jar.\n")


def example_process(
    name: str, arguments: list[str], directory: Path, master: str
) -> "subprocess.CompletedProcess[str]":
    own = os.environ | environment(master)
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    return subprocess.run(
        [sys.executable, "-m", f"spark_examples.{name}", *arguments],
        cwd=directory,
        env=own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.campaign
def test_jars_are_downloaded_although_maven_has_left_their_description(tmp_path: Path) -> None:
    artifact = tmp_path / ".m2/repository/org/slf4j/slf4j-api/2.0.16/slf4j-api-2.0.16.pom"
    artifact.parent.mkdir(parents=True)
    artifact.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.slf4j</groupId>"
        "<artifactId>slf4j-api</artifactId><version>2.0.16</version></project>"
    )
    options = {
        "spark.jars.packages": "org.slf4j:slf4j-api:2.0.16",
        "spark.jars.ivy": str(tmp_path / "ivy"),
    }
    program = f"from spark_examples import session; session.kafka_session('test', **{options})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            **environment("local[1]"),
            "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path}",
        },
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "ivy" / "jars").glob("*slf4j-api*.jar"))
