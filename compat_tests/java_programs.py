"""The programs of the folder `java`, which run with Kafka's classes."""

from __future__ import annotations

from pathlib import Path

from tests import kafka_jars

_SOURCES = Path(__file__).with_name("java")
STORAGE_SHIM = _SOURCES / "LogContext.java"
"""A class of Kafka 4.3 for its LocalTieredStorage, which is no program."""


def program_classes() -> Path:
    """The directory with the classes of all programs; a main class is named as its source file."""
    sources = sorted(path for path in _SOURCES.glob("*.java") if path != STORAGE_SHIM)
    return kafka_jars.compiled(sources, kafka_jars.tools_jars())
