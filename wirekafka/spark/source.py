"""The data source `wirekafka` as Spark loads it."""

from __future__ import annotations

import sys
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from wirekafka.spark.batch import BatchReader, FilteredBatchReader
from wirekafka.spark.options import (
    OptionError,
    Options,
    batch_options,
    chosen_columns,
    stream_options,
)
from wirekafka.spark.stream import StreamReader
from wirekafka.tables.rows import schema as arrow_schema

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program in which Spark 4.1 and later offers filters, if its configuration allows it."""


class KafkaLogSource(DataSource):
    """Kafka's logs as a data source: `spark.dataSource.register(Source)`, `format("wirekafka")`.

    The rows are like the rows of Spark's kafka format. They come from log directories (`path`), or
    from the brokers of any Kafka cluster (`kafka.bootstrap.servers`).
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "wirekafka"

    def schema(self) -> StructType:
        """The columns of Spark's kafka format, or the columns that the option `columns` names."""
        columns, headers = chosen_columns(self.options)
        return from_arrow_schema(arrow_schema(columns, headers=headers))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch query; it takes filters where Spark offers them."""
        options = _with_columns(batch_options(self.options), schema)
        # In every other program of Spark 4.1 and later, a reader with `pushFilters` is refused.
        takes_filters = _PUSHDOWN_WORKER in sys.modules
        return FilteredBatchReader(options) if takes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The streaming query; Spark 4.2 and later limits its steps itself."""
        options = _with_columns(stream_options(self.options), schema)
        try:
            from wirekafka.spark.available_now import AvailableNowReader
        except ImportError:
            return StreamReader(options)
        return AvailableNowReader(options)


def _with_columns(options: Options, schema: StructType) -> Options:
    """The options for a schema, which may have some of the columns. Raises OptionError."""
    known = from_arrow_schema(arrow_schema(headers=True))
    types = {field.name: field.dataType for field in known}
    for field in schema:
        if types.get(field.name) != field.dataType:
            raise OptionError(
                f"the schema has {field.name} {field.dataType.simpleString()}, which is no column"
                f" of {known.simpleString()}"
            )
    return replace(options, columns=tuple(schema.names), includes_headers=False)
