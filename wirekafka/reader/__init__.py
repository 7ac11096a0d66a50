"""A log without a broker: directories, tiers and brokers, read as Arrow record batches."""

from wirekafka.reader.bounds import Timestamp
from wirekafka.reader.log_reader import LogReader
from wirekafka.reader.log_reader import LogReader as Log
from wirekafka.reader.problems import DamagedLog, DataLost, ReaderError, UnknownLog
from wirekafka.reader.source import (
    CheckedBatches,
    Isolation,
    LogSource,
    OffsetRange,
    Split,
    SplitPoint,
)

__all__ = [
    "CheckedBatches",
    "DamagedLog",
    "DataLost",
    "Isolation",
    "Log",
    "LogReader",
    "LogSource",
    "OffsetRange",
    "ReaderError",
    "Split",
    "SplitPoint",
    "Timestamp",
    "UnknownLog",
]
