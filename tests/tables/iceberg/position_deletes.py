"""Deletes of rows by position, as Spark commits them: pyiceberg only reads such files."""

from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.table import FileScanTask, Table
from pyiceberg.typedef import Record

_COLUMNS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)


def delete_positions(table: Table, task: FileScanTask, positions: list[int]) -> None:
    """Commit a file that deletes rows of a data file of an unpartitioned table."""
    path = f"{table.location()}/data/{uuid4()}-deletes.parquet"
    named = pa.table([[task.file.file_path] * len(positions), positions], schema=_COLUMNS)
    output = table.io.new_output(path)
    with output.create() as stream:
        pq.write_table(named, stream)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(positions),
        file_size_in_bytes=len(output),
        spec_id=task.file.spec_id,
    )
    with pytest.MonkeyPatch.context() as patch:
        meta = ManifestWriterV2._meta.fget
        patch.setattr(ManifestWriterV2, "content", lambda self: ManifestContent.DELETES)
        patch.setattr(
            ManifestWriterV2, "_meta", property(lambda self: meta(self) | {"content": "deletes"})
        )
        transaction = table.transaction()
        with transaction.update_snapshot().fast_append() as update:
            update.append_data_file(deletes)
        transaction.commit_transaction()
