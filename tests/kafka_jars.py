"""Apache Kafka's jars and JSON schemas, fetched once with the Ivy that PySpark carries.

`python -m tests.kafka_jars` fetches everything ahead of time.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

KAFKA_VERSION = "4.4.0"
"""The release that wirekafka is compared with."""
PREVIOUS_VERSION = "4.3.1"
"""The previous release, which has to read wirekafka's directories and the reverse."""
CONNECT_VERSION = "4.3.1"
"""The version of Kafka Connect, of which 4.4.0 is published in part only."""
EARLIER_VERSIONS = ("3.3.2", "3.9.1")
"""The first release whose brokers are compared, and the last of the generation before 4.0."""
OLD_KAFKA_VERSION = "2.1.1"
"""The oldest client generation that a 4.4 broker accepts (KIP-896)."""

CACHE = Path(__file__).resolve().parent.parent / ".cache"

_LOG4J = "org.apache.logging.log4j"
_LOGGING = ((_LOG4J, "log4j-slf4j-impl", "2.25.5"), (_LOG4J, "log4j-core", "2.25.5"))
_TOOLS = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    *_LOGGING,
)
_CONNECT = (
    ("org.apache.kafka", "connect-runtime", CONNECT_VERSION),
    ("org.apache.kafka", "connect-file", CONNECT_VERSION),
    ("org.apache.kafka", "connect-mirror", CONNECT_VERSION),
    *_LOGGING,
)
_PREVIOUS = (
    ("org.apache.kafka", "kafka_2.13", PREVIOUS_VERSION),
    ("org.apache.kafka", "kafka-shell", PREVIOUS_VERSION),
    *_LOGGING,
)
_LOCAL_TIER = ("org.apache.kafka", "kafka-storage", PREVIOUS_VERSION)
_OLD = (
    ("org.apache.kafka", "kafka_2.12", OLD_KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", OLD_KAFKA_VERSION),
)

QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of a JVM that lives for seconds: it compiles little, and has one thread for garbage."""

Module = tuple[str, str, str]


class JarsUnavailable(Exception):
    """What kept the jars from being fetched, in one sentence."""


def java() -> str:
    """The java command of JAVA_HOME, or of PATH; raises JarsUnavailable without one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java")
    if found is None:
        raise JarsUnavailable("Java 17 or newer is needed and was not found.")
    return found


def kafka_jars() -> Path:
    """The directory with the jars of Kafka 4.4.0: broker and clients.

    The environment's WIREKAFKA_KAFKA_JARS names a directory to use instead.
    """
    given = os.environ.get("WIREKAFKA_KAFKA_JARS")
    return Path(given) if given else broker_jars(KAFKA_VERSION)


def tools_jars() -> Path:
    """The directory with the jars of Kafka 4.4.0: its tools, Streams, and what they run on."""
    return fetched(f"kafka-{KAFKA_VERSION}", _TOOLS)


def connect_jars() -> Path:
    """The directory with the jars of Kafka Connect 4.3.1, its file connectors and MirrorMaker."""
    return fetched(f"connect-{CONNECT_VERSION}", _CONNECT)


def previous_release_jars() -> Path:
    """The directory with the jars of Kafka 4.3.1: broker, clients and kafka-metadata-shell."""
    return fetched(f"previous-{PREVIOUS_VERSION}", _PREVIOUS)


def broker_jars(version: str) -> Path:
    """The directory with the jars of the broker of a Kafka release since 3.3, without tools."""
    broker = ("org.apache.kafka", "kafka_2.13", version)
    # Before 4.0 Kafka needs log4j 1, and brings its successor.
    logging = _LOGGING if version >= "4" else (("org.slf4j", "slf4j-reload4j", "1.7.36"),)
    return fetched(f"kafka-broker-{version}", (broker, *logging))


def local_tier_jars() -> Path:
    """The directory with LocalTieredStorage, in the tests of Kafka 4.3.1; 4.4.0 publishes none."""
    return fetched(f"local-tier-{PREVIOUS_VERSION}", (_LOCAL_TIER,), classifier="test")


def old_kafka_jars() -> Path:
    """The directory with the jars of Kafka 2.1.1."""
    return fetched(f"kafka-{OLD_KAFKA_VERSION}", _OLD)


def kafka_schemas(folder: str) -> Path:
    """The directory with Kafka's own JSON schemas of `folder` ("message" or "metadata")."""
    schemas = CACHE / f"kafka-{KAFKA_VERSION}-json-schemas"
    if not schemas.is_dir():
        jars = kafka_jars()
        with locked():
            if not schemas.is_dir():
                _unzip_schemas(jars, schemas)
    return schemas / folder


def class_path(jars: Path) -> str:
    """The java -cp argument for a directory of jars."""
    return f"{jars}/*"


def class_archive(jars: Path, run: Callable[[str], None]) -> tuple[str, ...]:
    """Options that have a JVM take its classes from an archive: a start costs about half.

    It is made once for a directory of jars: `run` runs a typical program with a JVM option. A JVM
    ignores the archive of another JVM, and an empty one.
    """
    archive = CACHE / f"{jars.name}.jsa"
    if not archive.exists():
        with locked():
            if not archive.exists():
                partial = archive.with_suffix(".partial")
                run(f"-XX:ArchiveClassesAtExit={partial}")
                partial.touch()
                partial.rename(archive)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


def compiled(sources: Sequence[Path], jars: Path) -> Path:
    """The directory with the classes of Java source files, compiled once for each of their texts.

    A JVM that starts a source file itself compiles it each time: that takes 1.5 s of CPU.
    """
    texts = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    directory = CACHE / f"classes-{jars.name}-{texts[:16]}"
    if not directory.is_dir():
        with locked():
            if not directory.is_dir():
                _compile(sources, jars, directory)
    return directory


def _compile(sources: Sequence[Path], jars: Path, directory: Path) -> None:
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    compiler = Path(java()).with_name("javac")
    options = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-encoding", "UTF-8")
    command = [compiler, *options, "-proc:none", "-cp", class_path(jars), "-d", partial, *sources]
    subprocess.run(command, check=True)
    partial.rename(directory)


def _unzip_schemas(jars: Path, schemas: Path) -> None:
    partial = schemas.with_name(f"{schemas.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for jar in sorted(jars.glob("kafka-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                # Tiered storage has its records in "message/", all others in "common/message/".
                path = name.removeprefix("common/")
                if path.startswith(("message/", "metadata/")) and path.endswith(".json"):
                    target = partial / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))
    partial.rename(schemas)


def fetched(name: str, modules: Sequence[Module], classifier: str = "") -> Path:
    """The directory of a name with the jars of modules and of what these depend on.

    With a classifier, only the modules' own jars. Raises JarsUnavailable.
    """
    directory = CACHE / name
    if directory.is_dir():
        return directory
    with locked():
        if not directory.is_dir():
            _fetch(directory, modules, classifier)
    return directory


@contextmanager
def locked() -> Iterator[None]:
    """One process at a time: test workers share the cache."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(directory: Path, modules: Sequence[Module], classifier: str) -> None:
    partial = directory.with_name(f"{directory.name}.partial")
    wanted = CACHE / f"{directory.name}.ivy.xml"
    wanted.write_text(_ivy_file(directory.name, modules, classifier))
    command = [java(), "-jar", str(ivy_jar()), "-warn", "-cache", str(CACHE / "ivy")]
    command += ["-ivy", str(wanted), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{partial}/[artifact]-[revision].[ext]"]
    output = ""
    for attempt in range(4):
        # The network is the likely cause, so each further attempt waits a little longer.
        time.sleep(5 * attempt)
        shutil.rmtree(partial, ignore_errors=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        if done.returncode == 0 and _complete(partial, modules):
            partial.rename(directory)
            return
    raise JarsUnavailable(f"The jars of {directory.name} could not be fetched:\n{output[-3000:]}")


def _complete(directory: Path, modules: Sequence[Module]) -> bool:
    return all((directory / f"{name}-{version}.jar").exists() for _, name, version in modules)


def ivy_jar() -> Path:
    """The Ivy that PySpark carries."""
    # PySpark is only imported if a jar is missing, since that takes a second.
    import pyspark

    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def _ivy_file(name: str, modules: Sequence[Module], classifier: str) -> str:
    rows = "".join(
        f'<dependency org="{organisation}" name="{module}" rev="{revision}" conf="default"/>'
        if not classifier
        # Only that jar, without what it depends on.
        else f'<dependency org="{organisation}" name="{module}" rev="{revision}" conf="default"'
        f' transitive="false"><artifact name="{module}" type="jar" ext="jar"'
        f' m:classifier="{classifier}"/></dependency>'
        for organisation, module, revision in modules
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f"<info organisation='wirekafka' module='{name}'/>"
        f"<dependencies>{rows}</dependencies></ivy-module>"
    )


if __name__ == "__main__":
    for found in (
        kafka_jars(),
        tools_jars(),
        connect_jars(),
        previous_release_jars(),
        local_tier_jars(),
        old_kafka_jars(),
        *map(broker_jars, EARLIER_VERSIONS),
        kafka_schemas("message"),
    ):
        print(found)
