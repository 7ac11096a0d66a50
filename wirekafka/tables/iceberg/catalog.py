"""The catalog that `--tables URL` means: where the tables are, and who keeps their newest state.

Without further properties, a local directory has its catalog in one SQLite file, `catalog.db`, in
the layout of Java's JdbcCatalog, so that Spark opens it (`type=jdbc`) as pyiceberg does.
The file keeps SQLite's rollback journal: a commit takes milliseconds and comes once a minute, and
unlike a write-ahead log it needs no memory shared by all readers, so that it can be read from a
read-only mount, a container's volume and a backup.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from sqlalchemy import create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from wirekafka.config.table_place import CATALOG_FILE, IMPLEMENTATIONS, NOT_IN_URIS, OF_CATALOGS
from wirekafka.tables.iceberg.problems import cause_of, may_pass, passing_problems
from wirekafka.tables.iceberg.synced_files import SyncedFileIO

BUSY_TIMEOUT_S = 30
"""How long a statement waits while another process writes the SQLite file."""
_OPENINGS = 5
"""Two processes that create the tables of one SQLite file at once disturb each other."""
_PAUSE_S = 0.05
_MISTAKES = (ArgumentError, NoSuchModuleError)
"""A URI of a database that SQLAlchemy does not understand, or has no package for."""
_LOCAL = "file://"
_SYNCED = f"{SyncedFileIO.__module__}.{SyncedFileIO.__name__}"
_Variables = dict[str, tuple[str, ...]]
_S3: _Variables = {
    "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
    "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "s3.session-token": ("AWS_SESSION_TOKEN",),
}
_GCS: _Variables = {"gcs.service.host": ("STORAGE_EMULATOR_HOST",)}
_AZURE: _Variables = {
    "adls.account-key": ("AZURE_STORAGE_ACCOUNT_KEY",),
    "adls.account-name": ("AZURE_STORAGE_ACCOUNT_NAME",),
    "adls.client-id": ("AZURE_CLIENT_ID",),
    "adls.client-secret": ("AZURE_CLIENT_SECRET",),
    "adls.connection-string": ("AZURE_STORAGE_CONNECTION_STRING",),
    "adls.sas-token": ("AZURE_STORAGE_SAS_TOKEN",),
    "adls.tenant-id": ("AZURE_TENANT_ID",),
}
_VARIABLES = {"s3": _S3, "gs": _GCS, "az": _AZURE}
"""Properties of pyiceberg, and the environment's variables that set them, by scheme of the URL."""


def open_catalog(
    url: str, *, name: str = "wirekafka", properties: Mapping[str, str] | None = None
) -> Catalog:
    """Open the catalog of the tables under a URL; properties of pyiceberg go before the defaults.

    The name is a column of a SQL catalog: Spark has to use the same. Raises ValueError for a URL
    or properties that can never work, CatalogProblem for a catalog that does not answer.
    """
    settled = catalog_properties(url, properties or {}, os.environ)
    subject = f"catalog {name} of {url}"
    openings = _OPENINGS if settled.get("type") == "sql" else 1
    with passing_problems(subject):
        for opening in range(openings):
            try:
                return _following(load_catalog(name, **settled))
            except Exception as error:
                if isinstance(error, _MISTAKES) or not may_pass(error):
                    raise ValueError(f"{subject}: {cause_of(error)}") from error
                if opening == openings - 1:
                    raise
            time.sleep(_PAUSE_S * (opening + 1))
    raise AssertionError("unreachable")


def _following(catalog: Catalog) -> Catalog:
    """The catalog; a SQLite file is opened for each use.

    A connection would write on to a file that was deleted, or replaced by a backup, where no reader
    sees it. A file that is missing is made anew with its directory, as at the start.
    """
    if not isinstance(catalog, SqlCatalog):
        return catalog
    url = catalog.engine.url
    path = Path(url.database or "")
    if url.get_backend_name() != "sqlite" or not path.is_absolute():
        return catalog
    plain = create_engine(url, poolclass=NullPool)
    engine = create_engine(url, poolclass=NullPool)

    def connecting(*_: object) -> None:
        if not path.exists() or not path.stat().st_size:
            path.parent.mkdir(parents=True, exist_ok=True)
            SqlCatalogBaseTable.metadata.create_all(plain)

    listen(engine, "do_connect", connecting)
    catalog.engine.dispose()
    catalog.engine = engine
    return catalog


def catalog_properties(
    url: str, properties: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """All of pyiceberg's properties: the given ones, the environment's, and the URL's."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme == "file":
        found = _local_properties(url, properties)
    elif scheme in _VARIABLES:
        found = {key: _first(names, environment) for key, names in _VARIABLES[scheme].items()}
        found = {key: text for key, text in found.items() if text}
        found["warehouse"] = _warehouse(url, scheme, found | dict(properties))
        if not any(key in properties for key in OF_CATALOGS):
            raise ValueError(
                f"tables at {url} need a catalog: set wirekafka.tables.catalog.uri, such as"
                " sqlite:////var/lib/wirekafka/tables.db or https://host/catalog"
            )
    else:
        raise ValueError(f"tables at {url}: no directory, and none of file, s3, gs, az")
    settled = found | dict(properties)
    if not any(key in settled for key in IMPLEMENTATIONS):
        settled["type"] = _type_of(settled["uri"])
    if settled.get("type") == "sql" and "uri" in settled:
        settled["uri"] = _patient(settled["uri"])
    settled.setdefault("type", "")
    return {key: value for key, value in settled.items() if value}


def _local_properties(url: str, properties: Mapping[str, str]) -> dict[str, str]:
    path = unquote(url.removeprefix(_LOCAL)) if url.startswith(_LOCAL) else url
    if url.startswith(_LOCAL) and not path.startswith("/"):
        raise ValueError(f"tables at {url}: a file URL has no host, as in file:///var/tables")
    directory = Path(path).resolve()
    if wrong := sorted(set(NOT_IN_URIS) & set(str(directory))):
        raise ValueError(
            f"tables at {directory}: a path with {' '.join(wrong)} is not one URI for all readers"
        )
    found = {"warehouse": _LOCAL + str(directory), "py-io-impl": _SYNCED}
    if not any(key in properties for key in OF_CATALOGS):
        with passing_problems(f"tables at {directory}"):
            directory.mkdir(parents=True, exist_ok=True)
        found["uri"] = f"sqlite:///{directory / CATALOG_FILE}"
    return found


def _warehouse(url: str, scheme: str, properties: Mapping[str, str]) -> str:
    """The URL as Iceberg's file systems write it."""
    if scheme != "az":
        return url.rstrip("/")
    container, _, prefix = url.removeprefix("az://").partition("/")
    account = properties.get("adls.account-name")
    if not account:
        raise ValueError(f"tables at {url}: set AZURE_STORAGE_ACCOUNT_NAME")
    return f"abfss://{container}@{account}.dfs.core.windows.net/{prefix}".rstrip("/")


def _type_of(uri: str) -> str:
    scheme = uri.partition("://")[0].partition("+")[0]
    types = {"http": "rest", "https": "rest", "thrift": "hive"}
    return types.get(scheme, "sql")


def _patient(uri: str) -> str:
    """A SQLite URI whose statements wait for other processes' statements."""
    if not uri.startswith("sqlite") or "timeout=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}timeout={BUSY_TIMEOUT_S}"


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")
