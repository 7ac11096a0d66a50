"""A Spark session with the Kafka connector that fits the installed PySpark, and quiet logs."""

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pyspark
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f

HERE = Path(__file__).resolve().parent
SCALA = "2.12" if pyspark.__version__.startswith("3.") else "2.13"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"
AVRO = f"org.apache.spark:spark-avro_{SCALA}:{pyspark.__version__}"
"""Spark's reader of Avro, for programs that use `from_avro`."""
ICEBERG = (
    f"org.apache.iceberg:iceberg-spark-runtime-4.0_{SCALA}:1.10.2",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""Iceberg for Spark 4.0.0, and the driver of catalogs that are a file of SQLite."""
TABLES = "wirekafka"
"""The name of the catalog that a broker writes its topics' tables to."""

TIMEOUTS = {"kafka.request.timeout.ms": "15000", "kafka.default.api.timeout.ms": "20000"}
"""Reader options that turn a wrong address into an error within seconds instead of a minute."""

_REASONS = (
    (r"a record of topic \S+ \(partition \d+ offset \d+\) does not fit the schema", None),
    (r"UnknownTopicOrPartition", "the topic does not exist"),
    (
        r"Partition .* offset was changed from|[Dd]ata was lost|KAFKA_DATA_LOSS",
        "records that were not read yet are gone: retention or a deletion was faster",
    ),
    (r"No resolvable bootstrap urls", "the bootstrap address cannot be resolved"),
    (
        r"Invalid url in bootstrap.servers|Invalid port in bootstrap",
        "the bootstrap address is not of the form HOST:PORT",
    ),
    (r"TimeoutException", "no broker answers at that address"),
    (r"Failed to find data source: kafka", "Spark was started without the Kafka connector's jar"),
    (
        r"unresolved dependency|download failed|FileNotFoundException: .*\.jar"
        r"|Local jar .* does not exist",
        "the Kafka connector's jars are not there and could not be downloaded",
    ),
    (r"JAVA_GATEWAY_EXITED", "Java did not start, or the connector's jars could not be downloaded"),
)
"""Pattern in an error's text -> what to say, or None for what the pattern found."""


def kafka_session(name: str, *packages: str, **options: str) -> SparkSession:
    """A session on this machine unless SPARK_MASTER names another master; options override.

    `packages` are downloaded besides the connector. SPARK_KAFKA_JARS names jars, by commas, instead
    of all that are downloaded.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    quiet = f"-Dlog4j2.configurationFile=file:{HERE}/log4j2.properties"
    jars = os.environ.get("SPARK_KAFKA_JARS")
    settings = {
        "spark.master": os.environ.get("SPARK_MASTER", "local[*]"),
        **({"spark.jars": jars} if jars else _downloaded(packages)),
        "spark.driver.extraJavaOptions": quiet,
        "spark.executor.extraJavaOptions": quiet,
        # Executors' Python finds this package where it was not installed, and what we find.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            filter(None, [os.environ.get("PYTHONPATH"), str(HERE.parent)])
        ),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **options,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _errors_to(_spark_log()):
        return builder.getOrCreate()


def topic_tables(directory: Path) -> dict[str, str]:
    """Options with which a session of the packages `ICEBERG` has the tables of `serve --tables`."""
    catalog = f"spark.sql.catalog.{TABLES}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{directory.resolve()}/catalog.db",
        f"{catalog}.warehouse": directory.resolve().as_uri(),
        # Having looked for the catalog's tables, Iceberg keeps SQLite's file locked.
        f"{catalog}.jdbc.init-catalog-tables": "false",
        # Each query sees the newest commit; tables are else kept as they were for 30 seconds.
        f"{catalog}.cache-enabled": "false",
    }


def _downloaded(packages: Sequence[str]) -> dict[str, str]:
    """Options with which Spark downloads the connector and more packages."""
    return {
        "spark.jars.packages": ",".join((CONNECTOR, *packages)),
        "spark.jars.ivy": str(HERE.parent / ".cache" / "spark-ivy"),
        "spark.jars.ivySettings": str(HERE / "ivysettings.xml"),
    }


def fits(parsed: Column, required: str) -> Column:
    """A parsed value; a record whose `required` field is missing fails the query, named."""
    place = f.concat_ws(
        " ",
        f.lit("a record of topic"),
        "topic",
        f.lit("(partition"),
        "partition",
        f.lit("offset"),
        f.concat("offset", f.lit(")")),
        f.lit("does not fit the schema"),
    )
    return f.when(parsed[required].isNotNull(), parsed).otherwise(f.raise_error(place))


def run(program: str, main: Callable[[], None]) -> None:
    """Run an example; any error ends it with one sentence."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"{program}: interrupted.")
    except Exception as error:
        fail(program, error)


def fail(program: str, error: Exception) -> NoReturn:
    """End the program with one sentence instead of a Java stack trace."""
    text = str(error)
    log = _spark_log().read_text(errors="replace") if "GATEWAY" in text else ""
    for sign, reason in _REASONS:
        found = re.search(sign, log + text)
        if found:
            sys.exit(f"{program}: {reason or found[0]}.")
    messages = re.findall(r"(?:Exception|Error): (.+)", text) or [text.strip() or repr(error)]
    sys.exit(f"{program}: {messages[-1].splitlines()[0].rstrip('.')}.")


def _spark_log() -> Path:
    """Where Spark's own log goes while the program runs: the terminal is the program's."""
    if not _log:
        directory = tempfile.mkdtemp(prefix="spark-log-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        _log.append(Path(directory, "spark.log"))
        _log[0].touch()
    return _log[0]


_log: list[Path] = []


@contextmanager
def _errors_to(path: Path) -> Iterator[None]:
    """The processes started meanwhile, so Spark's JVM, have `path` as their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("a") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
