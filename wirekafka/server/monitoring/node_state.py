"""Metrics of a node in any role: idle time, feature levels and its authorizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wirekafka.clock import Clock
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.metrics.exposition import GAUGE, Column, Table, single
from wirekafka.metrics.measures import Measures
from wirekafka.replication.raft.voter_set import KRAFT_FEATURE
from wirekafka.security.authorizer import Authorizer
from wirekafka.server.monitoring.coordinators import RecentRates

_AUTHORIZER = "StandardAuthorizer"
_SECONDS_PER_MINUTE = 60


class IdleCollector:
    """The idle share of the one thread, under the names of Kafka's threads that a role has."""

    def __init__(self, measures: Measures, *, is_broker: bool, is_controller: bool):
        self._measures = measures
        pool = "kafka_server_kafkarequesthandlerpool"
        names = ["kafka_server_raftmetrics_poll_idle_ratio_avg"]
        names.append("kafka_server_metadataloader_avgidleratio")
        if is_broker:
            names.append(f"{pool}_brokerrequesthandleravgidle_percent")
        if is_controller:
            names.append(f"{pool}_controllerrequesthandleravgidle_percent")
            names.append("kafka_controller_controllereventmanager_avgidleratio")
        text = "The share of time, up to 1, in which the thread that does all the work was idle."
        self._table = Table([], [Column(name, GAUGE, text) for name in names])
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        self._table.fill([((), (self._measures.idle,) * len(self._table.columns))])
        yield


class FeatureCollector:
    """The finalized level of each feature, and the levels that this node supports (KIP-1180)."""

    def __init__(self, image: Callable[[], MetadataImage], kraft_version: Callable[[], int]):
        """`kraft_version` returns the level of kraft.version, which the metadata log has."""
        self._image, self._kraft_version = image, kraft_version
        self._finalized = single(
            "kafka_server_metadataloader_finalizedlevel",
            GAUGE,
            "The finalized level of a feature.",
            "featureName",
        )
        prefix = "kafka_server_node_metrics"
        self._supported = Table(
            ["feature_name"],
            [
                Column(f"{prefix}_minimum_supported_level", GAUGE, "The lowest level."),
                Column(f"{prefix}_maximum_supported_level", GAUGE, "The highest level."),
            ],
        )
        self._supported.fill(
            ((name.replace(".", "-"),), range_of) for name, range_of in SUPPORTED.items()
        )
        self.tables = (self._finalized, self._supported)

    def collect(self) -> Iterator[None]:
        levels: Mapping[str, int] = {**self._image().features, KRAFT_FEATURE: self._kraft_version()}
        self._finalized.fill(((_camel_case(name),), (level,)) for name, level in levels.items())
        yield


def _camel_case(name: str) -> str:
    first, *others = name.split(".")
    return first + "".join(word.capitalize() for word in others)


class AuthorizerCollector:
    """The ACLs and the decisions of the authorizers of a node, if it has any."""

    def __init__(self, authorizers: Mapping[str, Authorizer | None], clock: Clock):
        """`authorizers` has the roles' authorizers, `broker` and `controller`, possibly the
        same."""
        self._clock = clock
        self._authorizers = {role: each for role, each in authorizers.items() if each is not None}
        self._rates = {role: RecentRates() for role in self._authorizers}
        prefix, decided = "kafka_server_plugins", "per minute, of late."
        self._table = Table(
            ["config", "class", "role"],
            [
                Column(f"{prefix}_acls_total_count", GAUGE, "ACLs."),
                Column(
                    f"{prefix}_authorization_request_rate_per_minute", GAUGE, f"Decisions {decided}"
                ),
                Column(
                    f"{prefix}_authorization_allowed_rate_per_minute",
                    GAUGE,
                    f"Allowed operations {decided}",
                ),
                Column(
                    f"{prefix}_authorization_denied_rate_per_minute",
                    GAUGE,
                    f"Denied operations {decided}",
                ),
            ],
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        self._table.begin()
        for role, found in self._authorizers.items():
            counts = found.decisions, found.decisions - found.denials, found.denials
            rates = self._rates[role].of(counts, self._clock.now_ms())
            per_minute = (_SECONDS_PER_MINUTE * rate for rate in rates)
            key = "authorizer.class.name", _AUTHORIZER, role
            self._table.put(key, (len(found.index), *per_minute))
        yield
