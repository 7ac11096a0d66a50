"""The data source `wirekafka` as Spark loads it.

Spark starts processes for each batch that is written, to plan and to commit it: what only readers
and tasks need is imported where it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from wirekafka.spark import batch_commit
from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.options import Options, batch_options, chosen_columns, stream_options
from wirekafka.spark.sink import BatchSink, StreamSink
from wirekafka.spark.sink_columns import check_columns
from wirekafka.spark.sink_options import has_transactional_id, sink_options

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program in which Spark 4.1 and later offers filters, if its configuration allows it."""


_COMMITS_WORKER = "pyspark.sql.worker.create_data_source"
"""The program that makes the data source of a run's commits, ahead of the first of them; and data
sources that read."""


class KafkaLogSource(DataSource):
    """Kafka's logs as a data source: `spark.dataSource.register(Source)`, `format("wirekafka")`.

    The rows are like the rows of Spark's kafka format. They come from log directories (`path`), or
    from the brokers of any Kafka cluster (`kafka.bootstrap.servers`), to which they are written.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._is_of_commits = _runs(_COMMITS_WORKER)
        self._run_before: str | None = None
        # Only a sink has a transactional id. The data source is pickled, and so keeps the run.
        if self._is_of_commits and has_transactional_id(options):
            self._run_before = batch_commit.run_of_marker(sink_options(options, "stream"))

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "wirekafka"

    def schema(self) -> StructType:
        """The columns of Spark's kafka format, or the columns that the option `columns` names."""
        columns, headers = chosen_columns(self.options)
        return _columns(columns, headers=headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch query; it takes filters where Spark offers them."""
        from wirekafka.spark.batch import BatchReader, FilteredBatchReader

        options = _with_columns(batch_options(self.options), schema)
        # In every other program of Spark 4.1 and later, a reader with `pushFilters` is refused.
        takes_filters = _PUSHDOWN_WORKER in sys.modules
        return FilteredBatchReader(options) if takes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The streaming query; Spark 4.2 and later limits its steps itself."""
        from wirekafka.spark.stream import StreamReader

        options = _with_columns(stream_options(self.options), schema)
        try:
            from wirekafka.spark.available_now import AvailableNowReader
        except ImportError:
            return StreamReader(options)
        return AvailableNowReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch query."""
        options = sink_options(self.options, "batch")
        if overwrite:
            raise OptionError('topics cannot be overwritten: use mode("append")')
        check_columns(schema, options)
        batch_commit.check_topic(options)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a batch of a stream, or of a run's commits."""
        options = sink_options(self.options, "stream")
        if self._is_of_commits:
            return StreamSink(options, run_before=self._run_before)
        if overwrite:
            raise OptionError('topics cannot be overwritten: use outputMode "append" or "update"')
        check_columns(schema, options)
        if not options.is_exactly_once:
            batch_commit.check_topic(options)
            return StreamSink(options)
        return StreamSink(options, begun=batch_commit.begin(options))


def _runs(worker: str) -> bool:
    """Whether this process is a program of Spark's, forked by a daemon or started by itself."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return worker in sys.modules or (main is not None and main.name == worker)


def _with_columns(options: Options, schema: StructType) -> Options:
    """The options for a schema, which may have some of the columns. Raises OptionError."""
    known = _columns(headers=True)
    types = {field.name: field.dataType for field in known}
    for field in schema:
        if types.get(field.name) != field.dataType:
            raise OptionError(
                f"the schema has {field.name} {field.dataType.simpleString()}, which is no column"
                f" of {known.simpleString()}"
            )
    return replace(options, columns=tuple(schema.names), includes_headers=False)


def _columns(names: Sequence[str] | None = None, *, headers: bool) -> StructType:
    """The columns of rows as Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from wirekafka.tables.rows import schema

    return from_arrow_schema(schema(names, headers=headers))
