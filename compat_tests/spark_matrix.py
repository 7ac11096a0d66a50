"""Runs the connector's tests with other Spark versions than the installed (make spark-matrix).

Each PySpark goes to a directory of its own in .cache, which precedes the installed one on
the path. Their connectors do not resolve completely (some modules are not published), so the jars
are collected here.

usage: python -m compat_tests.spark_matrix [VERSION ...] [-- PYTEST_ARGUMENT ...]
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import kafka_jars

TESTS = [
    f"compat_tests/test_spark{what}.py"
    for what in ("", "_options", "_clients", "_examples", "_real_time", "_sink")
]
ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
SPARK = "org.apache.spark"

PACKAGES = {
    # PySpark 3.5 does not support pandas 3, and slices batches by floats, which later pyarrow
    # versions refuse.
    "3.5.6": ("py4j==0.10.9.7", "pandas==2.2.3", "pytz", "pyarrow==14.0.2", "numpy==1.26.4"),
    "4.2.0": ("py4j==0.10.9.9", "protobuf==6.33.5"),
    "4.3.0": ("py4j==0.10.9.9", "protobuf==6.33.5"),
}
"""The default versions, and the packages to install with each."""

JARS: dict[str, tuple[kafka_jars.Module, ...]] = {
    # 3.5.6 has no connector where Maven's modules are mirrored; its next release has.
    "3.5.6": (
        (SPARK, "spark-sql-kafka-0-10_2.12", "3.5.7"),
        (SPARK, "spark-token-provider-kafka-0-10_2.12", "3.5.7"),
        ("org.apache.kafka", "kafka-clients", "3.4.1"),
        ("org.apache.commons", "commons-pool2", "2.11.1"),
    ),
    "4.2.0": (
        (SPARK, "spark-sql-kafka-0-10_2.13", "4.2.0"),
        (SPARK, "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
    # Neither 4.2.1 nor 4.3.0 has a connector yet; that of 4.2.0 serves both.
    "4.3.0": (
        (SPARK, "spark-sql-kafka-0-10_2.13", "4.2.0"),
        (SPARK, "spark-token-provider-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.2"),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
}
"""The connector's jars of a version; the connectors of other versions resolve by Maven."""


def main() -> int:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    failed = []
    for version in words[:split] or list(PACKAGES):
        print(f"== Spark {version}", flush=True)
        try:
            status = tested(version, words[split + 1 :])
        except subprocess.CalledProcessError as failure:
            print(f"Spark {version} cannot be had: {' '.join(failure.cmd)} failed", flush=True)
            status = 1
        if status:
            failed.append(version)
    print(f"spark-matrix: {'failed with ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0


def tested(version: str, arguments: Sequence[str]) -> int:
    """Run the tests with one Spark version, and return the exit status."""
    packages = installed(version)
    environment = os.environ | {"PYTHONPATH": f"{packages}{os.pathsep}{ROOT}"}
    environment.pop("SPARK_HOME", None)
    if version in JARS:
        environment["SPARK_KAFKA_JARS"] = ",".join(map(str, jars(version)))
    command = [sys.executable, "-m", "pytest", "-v", *TESTS, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def installed(version: str) -> Path:
    """The directory with that PySpark, made by pip unless it is there."""
    directory = CACHE / f"pyspark-{version}"
    packages = [f"pyspark=={version}", *PACKAGES.get(version, ())]
    stamp = directory / "packages.txt"
    if not stamp.exists() or stamp.read_text().split() != packages:
        print(f"installing {' '.join(packages)} into {directory.relative_to(ROOT)}", flush=True)
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(partial), *packages], check=True)
        (partial / stamp.name).write_text("\n".join(packages))
        partial.rename(directory)
    return directory


def jars(version: str) -> list[Path]:
    """The connector's jars, each fetched without its dependencies."""
    directory = CACHE / f"spark-kafka-{version}"
    for organisation, name, revision in JARS[version]:
        if (directory / f"{name}-{revision}.jar").exists():
            continue
        command = [kafka_jars.java(), "-jar", str(kafka_jars.ivy_jar()), "-warn", "-notransitive"]
        command += ["-cache", str(CACHE / "ivy"), "-dependency", organisation, name, revision]
        command += ["-types", "jar", "-retrieve", f"{directory}/[artifact]-[revision].[ext]"]
        subprocess.run(command, check=True)
    return [directory / f"{name}-{revision}.jar" for _, name, revision in JARS[version]]


if __name__ == "__main__":
    sys.exit(main())
