"""Catalogs by the URL of the tables, and one SQLite file that several processes share."""

import sqlite3
import threading

import pytest
from sqlalchemy.exc import OperationalError

from tests.ports import free_ports
from tests.tables.iceberg.lake import TABLE, a_table, append, assert_holds_its_marks
from wirekafka.tables.iceberg.catalog import catalog_properties, open_catalog
from wirekafka.tables.iceberg.problems import CatalogProblem, cause_of


@pytest.mark.parametrize("form", ["{}", "file://{}", "{}/", "{}/inner dir"])
def test_a_directory_has_its_catalog_in_a_sqlite_file(tmp_path, form):
    url = form.format(tmp_path)
    catalog = open_catalog(url)
    directory = tmp_path / "inner dir" if "inner" in url else tmp_path
    assert (directory / "catalog.db").is_file()
    assert catalog.properties["warehouse"] == f"file://{directory}"
    table = a_table(directory, catalog=catalog)
    append(table, 0, 3)
    assert table.table.metadata_location.startswith(
        f"file://{directory}/redpanda/flights/metadata/"
    )
    assert assert_holds_its_marks(table) == {0: 3}


def test_a_relative_directory_is_one_place_for_all_readers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_catalog("lake").properties["warehouse"] == f"file://{tmp_path}/lake"


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b"])
def test_a_directory_that_is_no_uri_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="is not one URI for all readers"):
        open_catalog(str(tmp_path / name))


def test_the_sqlite_file_has_the_layout_of_javas_catalog_and_no_write_ahead_log(tmp_path):
    append(a_table(tmp_path), 0, 3)
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        found = connection.execute(
            "SELECT catalog_name, table_namespace, table_name, iceberg_type FROM iceberg_tables"
        ).fetchall()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert found == [("wirekafka", *TABLE, "TABLE")]
    assert mode == "delete"


def test_a_locked_sqlite_file_is_waited_for(tmp_path):
    table = a_table(tmp_path)
    lock = sqlite3.connect(tmp_path / "catalog.db", check_same_thread=False, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, lambda: lock.execute("COMMIT"))
    release.start()
    assert append(table, 0, 3) == {0: 3}
    release.join()
    lock.close()


def test_a_sqlite_file_that_stays_locked_is_a_passing_problem(tmp_path):
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db?timeout=0.1"}
    table = a_table(tmp_path, catalog=open_catalog(str(tmp_path), properties=properties))
    lock = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    with pytest.raises(CatalogProblem, match=r"redpanda.flights: .*database is locked"):
        append(table, 0, 3)
    with pytest.raises(CatalogProblem, match="database is locked"):
        open_catalog(str(tmp_path), properties=properties)
    lock.close()
    assert append(table, 0, 3) == {0: 3}


def test_a_file_that_is_no_catalog_is_reported(tmp_path):
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(CatalogProblem, match=r"catalog wirekafka of .*file is not a database"):
        open_catalog(str(tmp_path))


@pytest.mark.parametrize(
    ("properties", "cause"),
    [
        ({"uri": "nosql://host/tables"}, "NoSuchModuleError"),
        ({"uri": "mysql://host/tables"}, "NotInstalledError"),
        ({"type": "unknown"}, "ValueError"),
        ({"type": "sql"}, "ValueError: URI missing"),
        ({"py-catalog-impl": "no.such.Catalog"}, "ValueError"),
    ],
)
def test_a_catalog_that_can_never_open_is_a_mistake_of_the_configuration(
    tmp_path, properties, cause
):
    with pytest.raises(ValueError, match=f"catalog wirekafka of .*: {cause}"):
        open_catalog(str(tmp_path), properties=properties)


def test_a_rest_catalog_that_is_down_is_a_passing_problem(tmp_path):
    (port,) = free_ports(1)
    with pytest.raises(CatalogProblem, match="catalog wirekafka of"):
        open_catalog(str(tmp_path), properties={"uri": f"http://127.0.0.1:{port}/"})


def test_many_threads_open_one_new_catalog_and_one_new_table(tmp_path):
    gate = threading.Barrier(4)
    failures = []

    def open_and_append(partition):
        gate.wait(timeout=30)
        try:
            append(a_table(tmp_path), 0, 3, partition=partition)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_append, args=[each]) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert assert_holds_its_marks(a_table(tmp_path)) == dict.fromkeys(range(4), 3)


def test_an_object_store_needs_a_catalog():
    with pytest.raises(ValueError, match=r"s3://bucket/lake need a catalog.*catalog\.uri"):
        catalog_properties("s3://bucket/lake", {}, {})


def test_a_store_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="none of file, s3, gs, az"):
        catalog_properties("hdfs://host/lake", {"uri": "sqlite:////tmp/x.db"}, {})


def test_a_file_url_with_a_host_is_refused():
    with pytest.raises(ValueError, match="has no host"):
        open_catalog("file://host/lake")


def test_s3_is_set_up_by_the_environment():
    environment = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9001",
    }
    properties = {"uri": "sqlite:////tmp/tables.db", "s3.region": "us-east-1"}
    assert catalog_properties("s3://bucket/lake/", properties, environment) == {
        "s3.access-key-id": "key",
        "s3.endpoint": "http://127.0.0.1:9001",
        "s3.region": "us-east-1",
        "s3.secret-access-key": "secret",
        "type": "sql",
        "uri": "sqlite:////tmp/tables.db?timeout=30",
        "warehouse": "s3://bucket/lake",
    }


def test_azure_and_google_are_written_as_iceberg_writes_them():
    azure = catalog_properties(
        "az://container/lake",
        {"uri": "https://host/catalog"},
        {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "key"},
    )
    assert azure["warehouse"] == "abfss://container@account.dfs.core.windows.net/lake"
    assert (azure["type"], azure["adls.account-key"]) == ("rest", "key")
    google = catalog_properties("gs://bucket/lake", {"uri": "https://host"}, {})
    assert google["warehouse"] == "gs://bucket/lake"
    with pytest.raises(ValueError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        catalog_properties("az://container/lake", {"uri": "https://host"}, {})


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("https://host/catalog", "rest"),
        ("thrift://host:9083", "hive"),
        ("postgresql+psycopg2://user@host/tables", "sql"),
        ("sqlite:////srv/tables.db?timeout=5", "sql"),
    ],
)
def test_the_type_of_a_catalog_follows_its_uri(tmp_path, uri, kind):
    found = catalog_properties(str(tmp_path), {"uri": uri}, {})
    assert (found["type"], found["uri"]) == (kind, uri)


def test_a_locked_catalog_names_the_option_that_spark_needs():
    locked = OperationalError("UPDATE", {}, sqlite3.OperationalError("database is locked"))
    assert "jdbc.init-catalog-tables=false" in cause_of(locked)
    assert cause_of(OSError("no such file")) == "OSError: no such file"
