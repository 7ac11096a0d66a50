"""Settings of wirekafka's own, which Kafka does not have: they are in no list of its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.config.sources import Sources

METRICS_LISTENER = "wirekafka.metrics.listener"
METRICS_HOSTS = "wirekafka.metrics.hosts"
CONSOLE_LISTENER = "wirekafka.console.listener"
CONSOLE_CHANGES = "wirekafka.console.allow.changes"
CONSOLE_CLIENT = "wirekafka.console.command.config"
SCHEMA_REGISTRY_LISTENER = "wirekafka.schema.registry.listener"
SCHEMA_REGISTRY_CLIENT = "wirekafka.schema.registry.command.config"
SCHEMA_REGISTRY_CERTIFICATE = "wirekafka.schema.registry.certificate"
SCHEMA_REGISTRY_KEY = "wirekafka.schema.registry.key"
NEW_DIRECTORIES = "wirekafka.new.log.dirs"
DISK_BUDGET = "wirekafka.disk.budget.bytes"
DISK_POLICY = "wirekafka.disk.budget.policy"
READ_FIRST, KEEP_UNREAD = "read-first", "keep-unread"
"""The policies of a disk budget."""
DESCRIBED = frozenset({DISK_BUDGET, DISK_POLICY})
"""Options whose values DescribeConfigs returns, so that `wirekafka doctor` knows them. As Apache
Kafka does with all options that it does not know, brokers withhold the values of the others."""
TIER = "wirekafka.tier"
TABLES = "wirekafka.tables.url"
TABLES_NAMESPACE = "wirekafka.tables.namespace"
TABLES_CATALOG_NAME = "wirekafka.tables.catalog.name"
TABLES_CATALOG = "wirekafka.tables.catalog."
"""The prefix of the catalog's properties."""
TABLES_RATE = "wirekafka.tables.rate.bytes"
MIRROR = "wirekafka.mirror.bootstrap.servers"
MIRROR_TOPICS = "wirekafka.mirror.topics"
MIRROR_CLIENT = "wirekafka.mirror.command.config"
MIRROR_FROM = "wirekafka.mirror.from"
MIRROR_ONCE = "wirekafka.mirror.once"
MIRROR_RATE = "wirekafka.mirror.rate.bytes"
MIRROR_GROUPS = "wirekafka.mirror.groups"
MIRROR_CONFIGS = "wirekafka.mirror.configs"
MIRROR_REFRESH = "wirekafka.mirror.refresh.ms"
SCHEMA_REGISTRY = "confluent.schema.registry.url"
SCHEMA_REGISTRY_CREDENTIALS = "confluent.basic.auth.credentials.source"
SCHEMA_REGISTRY_USER = "confluent.basic.auth.user.info"
SCHEMA_REGISTRY_SSL = "confluent.ssl."
"""The prefix of the TLS options with which that registry is reached."""
OF_SCHEMA_VALIDATION = (SCHEMA_REGISTRY, SCHEMA_REGISTRY_CREDENTIALS, SCHEMA_REGISTRY_USER)
"""Confluent Server's options of brokers that validate schemas."""
OWN = {
    METRICS_LISTENER: "Where metrics and health are served over HTTP, as PORT on 127.0.0.1 or "
    "HOST:PORT; not set, they are not served. As `serve --metrics`.",
    METRICS_HOSTS: "Names in Host headers, separated by commas, that metrics are served to besides "
    "addresses, localhost, the name of the machine and the listeners' names.",
    CONSOLE_LISTENER: "Where the console is served over HTTP, as PORT on 127.0.0.1 or HOST:PORT; "
    "not set, it is not served. As `serve --console`.",
    CONSOLE_CHANGES: "Whether the console serves forms that change something; false by default. "
    "As `serve --allow-changes`.",
    CONSOLE_CLIENT: "A file with the properties of a Kafka client, by which the console connects "
    "to this broker. As `serve --console-config`.",
    SCHEMA_REGISTRY_LISTENER: "Where the schema registry is served over HTTP, as PORT on 127.0.0.1 "
    "or HOST:PORT; not set, it is not served. As `serve --schema-registry`.",
    SCHEMA_REGISTRY_CLIENT: "A file with the properties of a Kafka client, by which the schema "
    "registry connects to this broker. As `serve --schema-registry-config`.",
    SCHEMA_REGISTRY_CERTIFICATE: "A file of PEM with the certificate of the schema registry's "
    "listener, which has TLS then.",
    SCHEMA_REGISTRY_KEY: "A file of PEM with the key of this certificate; not set, the "
    "certificate's file has it.",
    NEW_DIRECTORIES: "Directories of `log.dirs` that this node may format beside others that it "
    "has used before. Another one without `meta.properties` is taken for a disk that is not "
    "mounted, and the node does not start. As `serve --new-directory`.",
    DISK_BUDGET: "How many bytes the logs of each log directory may have; not set, there is no "
    "limit. Ahead of Kafka's own retention, segments go that every group has read, the oldest "
    "first, then segments of partitions without groups. Internal topics, compacted topics and "
    "topics whose retention is unlimited lose nothing, tiered topics only what is readable in the "
    "object store. While nothing more may go, appends are refused as on a full disk.",
    DISK_POLICY: "What else may go within the budget: `read-first`, the default, deletes unread "
    "segments too once no read segment is left, but not in topics with "
    "`wirekafka.retention.keep.unread`; `keep-unread` deletes nothing that a group has not read.",
    TIER: "The URL of an object store for tiered topics, such as s3://bucket/prefix or "
    "file:///mnt/tier; it stands for the class of a plugin and its options, which must not be set "
    "then. As `serve --tier`, which sets remote.log.storage.system.enable as well.",
    TABLES: "Where the Iceberg tables of topics with `wirekafka.table.mode` are: a directory, or "
    "the URL of an object store, such as file:///mnt/lake, s3://bucket/prefix, gs://bucket or "
    "az://container. As `serve --tables`.",
    TABLES_NAMESPACE: "The namespace of the tables in the catalog; `redpanda` by default.",
    TABLES_CATALOG_NAME: "The name of the catalog; `wirekafka` by default. Programs that open a "
    "catalog in a database have to use the same name.",
    TABLES_RATE: "How many bytes of logs a second may be read for tables; 0, the default, is no "
    "limit.",
    MIRROR: "Brokers of another Kafka cluster, HOST:PORT separated by commas, whose topics this "
    "node copies with their offsets. As `serve --mirror`.",
    MIRROR_TOPICS: "A regular expression for the names of the mirrored topics; all by default, "
    "except names that begin with two underscores. As `serve --mirror-topics`.",
    MIRROR_CLIENT: "A file with the properties of a Kafka client, by which the node connects to "
    "the mirrored cluster. As `serve --mirror-config`.",
    MIRROR_FROM: "How far back the copy of a new topic begins, such as 1h, 30m or 7d; not set, it "
    "begins where the source does. As `serve --mirror-from`.",
    MIRROR_ONCE: "Whether what the source has at the start is copied, and nothing that comes "
    "later; false by default. As `serve --mirror-once`.",
    MIRROR_RATE: "How many bytes a second are fetched from the mirrored cluster at the most; 0, "
    "the default, is no limit. As `serve --mirror-rate`.",
    MIRROR_GROUPS: "A regular expression for the groups whose committed offsets are copied; not "
    "set, none are. As `serve --mirror-groups`.",
    MIRROR_CONFIGS: "Whether topics get the configurations that they have at the source, which "
    "takes the right to describe these; false by default. As `serve --mirror-configs`.",
    MIRROR_REFRESH: "How often, in milliseconds, the topics of the mirrored cluster, their "
    "configurations and the groups' offsets are looked at; 5000 by default.",
    SCHEMA_REGISTRY: "The URL of the schema registry, or the URLs of its instances separated by "
    "commas, that is asked about the schemas of records in topics with "
    "`confluent.value.schema.validation` or `confluent.key.schema.validation`.",
    SCHEMA_REGISTRY_CREDENTIALS: "Where the user of that registry is found: `USER_INFO` is in the "
    "next setting, `URL` (the default) before the host of the URL, as http://user:password@host.",
    SCHEMA_REGISTRY_USER: "The user of that registry, as `user:password`.",
}
"""The meaning of each setting, by name. All are static: set by file, environment or command
line."""

PREFIXES = {
    TABLES_CATALOG: "A property of the catalog as pyiceberg has it: `.type=rest` and `.uri` for a "
    "REST catalog, for instance, or `.s3.endpoint`. Without `.uri` and `.type` the catalog is an "
    "SQLite file: `catalog.db` in the directory of the tables, or `wirekafka-tables.db` in the "
    "first log directory if the tables are in an object store.",
    SCHEMA_REGISTRY_SSL: "How the registry of `confluent.schema.registry.url` is reached by TLS, "
    "as a client's `ssl.*`: `.truststore.location` for its authority, `.keystore.location` for a "
    "certificate of this broker, for instance.",
}
"""The meaning of settings that begin with a prefix."""

_LOOPBACK = "127.0.0.1"


def metrics_listener(sources: Sources) -> Address | None:
    """The address of the metrics listener; None if there is none. Raises ConfigError."""
    return _listener(sources, METRICS_LISTENER)


def metrics_hosts(sources: Sources) -> frozenset[str]:
    """Further names that the metrics listener is asked by, in lower case."""
    names = (sources.text(METRICS_HOSTS) or "").lower().split(",")
    return frozenset(name.strip() for name in names if name.strip())


def console_listener(sources: Sources) -> Address | None:
    """The address of the console; None if there is none. Raises ConfigError."""
    return _listener(sources, CONSOLE_LISTENER)


def console_allows_changes(sources: Sources) -> bool:
    """Whether the console may change something. Raises ConfigError."""
    text = (sources.static_value(CONSOLE_CHANGES) or "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(CONSOLE_CHANGES, text, "expected true or false")
    return text == "true"


def schema_registry_listener(sources: Sources) -> Address | None:
    """The address of the schema registry; None if there is none. Raises ConfigError."""
    return _listener(sources, SCHEMA_REGISTRY_LISTENER)


def tier_url(sources: Sources) -> str | None:
    """The URL of the object store of tiered topics; None if it is configured as in Kafka."""
    return sources.static_value(TIER) or None


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A schema registry as a client reaches it: its URLs, and a user or an empty name."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    certificate: Path | None = None
    """The file of the certificate that it shows; None if an authority vouches for it."""
    ssl: Mapping[str, str] = field(default_factory=dict, repr=False)
    """A client's options `ssl.*` for it."""


def schema_registry(sources: Sources) -> RegistryAccess | None:
    """The registry that validates schemas; None if none is configured. Raises ConfigError."""
    url = (sources.static_value(SCHEMA_REGISTRY) or "").strip()
    source = (sources.static_value(SCHEMA_REGISTRY_CREDENTIALS) or "URL").strip()
    if not url:
        return None
    ssl = {
        f"ssl.{name.removeprefix(SCHEMA_REGISTRY_SSL)}": sources.static_value(name) or ""
        for name in sources.names()
        if name.startswith(SCHEMA_REGISTRY_SSL)
    }
    match source:
        case "URL":
            return RegistryAccess(url, ssl=ssl)
        case "USER_INFO":
            info = sources.static_value(SCHEMA_REGISTRY_USER) or ""
            user, colon, password = info.partition(":")
            if not colon:
                raise ConfigError(SCHEMA_REGISTRY_USER, "[hidden]", "expected user:password")
            return RegistryAccess(url, user, password, ssl=ssl)
    raise ConfigError(SCHEMA_REGISTRY_CREDENTIALS, source, "expected URL or USER_INFO")


@dataclass(frozen=True, slots=True)
class DiskLimit:
    """The budget of each log directory in bytes, and whether unread records go for it."""

    budget_bytes: int
    deletes_unread: bool = True


def disk_limit(sources: Sources) -> DiskLimit | None:
    """The budget of each log directory; None if there is none. Raises ConfigError."""
    text = (sources.static_value(DISK_BUDGET) or "").strip()
    policy = (sources.static_value(DISK_POLICY) or READ_FIRST).strip()
    if policy not in (READ_FIRST, KEEP_UNREAD):
        raise ConfigError(DISK_POLICY, policy, f"expected {READ_FIRST} or {KEEP_UNREAD}")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19) or int(text) < 1:
        raise ConfigError(DISK_BUDGET, text, "expected a positive number of bytes")
    return DiskLimit(int(text), deletes_unread=policy == READ_FIRST)


def tables_url(sources: Sources) -> str | None:
    """Where the tables of topics are; None if there are none."""
    return (sources.static_value(TABLES) or "").strip() or None


def mirror_source(sources: Sources) -> str | None:
    """The brokers of the cluster that is mirrored; None if there is none."""
    return (sources.static_value(MIRROR) or "").strip() or None


def new_directories(sources: Sources) -> tuple[str, ...]:
    """The log directories that may be formatted although other directories were used before."""
    text = sources.text(NEW_DIRECTORIES) or ""
    return tuple(path for each in text.split(",") if (path := each.strip()))


def _listener(sources: Sources, name: str) -> Address | None:
    text = (sources.static_value(name) or "").strip()
    if not text:
        return None
    try:
        return Address.parse(f"{_LOOPBACK}:{text}" if text.isascii() and text.isdigit() else text)
    except ValueError:
        raise ConfigError(name, text, "expected PORT or HOST:PORT") from None
