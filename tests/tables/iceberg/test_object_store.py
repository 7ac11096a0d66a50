"""Tables in an S3 bucket, with the catalog in a local file."""

import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem

from tests.tables.iceberg.lake import a_table, append, offsets_of
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.tables.iceberg.problems import WrongTable


@pytest.fixture
def store(monkeypatch):
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
    ):
        monkeypatch.setenv(name, value)
    yield S3FileSystem(
        access_key="key",
        secret_key="secret",
        region="us-east-1",
        endpoint_override=f"http://{host}:{port}",
        allow_bucket_creation=True,
    )
    server.stop()


def test_a_bucket_has_tables_and_a_local_file_their_catalog(store, tmp_path):
    store.create_dir("lake")
    properties = {"uri": f"sqlite:///{tmp_path}/tables.db"}
    catalog = open_catalog("s3://lake/tables", properties=properties)
    table = a_table(tmp_path, catalog=catalog)
    assert append(table, 0, 100) == {0: 100}
    assert offsets_of(table.table) == {0: list(range(100))}
    assert table.table.metadata_location.startswith("s3://lake/tables/redpanda/flights/metadata/")
    store.delete_dir_contents("lake")
    with pytest.raises(WrongTable, match=r"redpanda\.flights: .*a file of the table is missing"):
        append(table, 100, 200)
