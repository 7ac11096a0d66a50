"""The clusters on which cases of conformance are recorded, and those of wirekafka to judge.

    python -m compat_tests.conformance.clusters ENGINE KIND DIRECTORY

starts one of them on an empty directory, prints its address, writes `client.properties` there if
clients have to log in, and stops the cluster when it is terminated itself.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from compat_tests.cluster import CLIENTS, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.java_programs import program_classes
from compat_tests.listener_stage import jaas
from tests import kafka_jars
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.client_config import ClientConfig
from wirekafka.conformance.recordings import RELEASES

ENGINES = (*RELEASES, WIREKAFKA)
ADMIN, PASSWORD = "admin", "admin-secret"
"""The super user as which cases log in."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class ClusterKind(StrEnum):
    """What a cluster is made of."""

    ONE = "one"
    """One node without an authorizer."""
    THREE = "three"
    SECURED = "secured"
    """One node with an authorizer, logins by SASL and delegation tokens."""
    SECURED_THREE = "secured-three"

    @property
    def nodes(self) -> int:
        return 3 if self in (ClusterKind.THREE, ClusterKind.SECURED_THREE) else 1

    @property
    def is_secured(self) -> bool:
        return self in (ClusterKind.SECURED, ClusterKind.SECURED_THREE)


def recorded_clusters(
    engine: str, kinds: Sequence[ClusterKind] = tuple(ClusterKind)
) -> Iterator[tuple[str, str, ClientConfig | None]]:
    """Start a cluster of each kind after the other, of a release of Apache Kafka or of wirekafka.

    Yields the engine, the addresses of the brokers, and what clients need to log in. Each cluster
    ends before the next is started.
    """
    for kind in kinds:
        with cluster_of(engine, kind) as (bootstrap, config):
            yield engine, bootstrap, config


@contextmanager
def cluster_of(engine: str, kind: ClusterKind) -> Iterator[tuple[str, ClientConfig | None]]:
    """A running cluster; yields the addresses of its brokers, and what clients need to log in."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        shape = _shape(engine, kind)
        with Cluster.running(shape, Path(scratch)) as cluster:
            yield _bootstrap(cluster, kind), client_config(kind)


def client_config(kind: ClusterKind) -> ClientConfig | None:
    """The options of clients of a kind of cluster, which log in as the super user."""
    return ClientConfig(_client_options()) if kind.is_secured else None


def _client_options() -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} username="{ADMIN}" password="{PASSWORD}";',
    }


def _bootstrap(cluster: Cluster, kind: ClusterKind) -> str:
    if not kind.is_secured:
        return cluster.bootstrap
    return ",".join(each.login_address for each in cluster.brokers())


def _shape(engine: str, kind: ClusterKind) -> Shape:
    is_ours = engine == WIREKAFKA
    jars = None if is_ours else _jars(engine)
    settings = _telemetry(engine)
    if kind.is_secured:
        settings |= _security()
    return Shape(
        brokers=(WIREKAFKA if is_ours else KAFKA,) * kind.nodes,
        controllers=kind.nodes,
        settings=settings,
        jars={} if jars is None else {1 + index: jars for index in range(kind.nodes)},
        class_path="" if is_ours else str(program_classes()),
        has_logins=kind.is_secured,
    )


def _jars(release: str) -> Path | None:
    """The jars of a release; None for the newest, whose classes are in an archive."""
    if release == "4.4":
        return None
    if release == "4.3":
        return kafka_jars.previous_release_jars()
    assert release == "3.9", release
    return kafka_jars.broker_jars("3.9.1")


def _telemetry(engine: str) -> dict[str, str]:
    """The settings of a broker that takes metrics of clients."""
    if engine == WIREKAFKA:
        return {"wirekafka.metrics.listener": "0"}
    return {"metric.reporters": "TelemetryReceiver" if engine == "3.9" else "TelemetryReporter"}


def _security() -> dict[str, str]:
    clients = f"listener.name.{CLIENTS.lower()}"
    return {
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{CLIENTS}:SASL_PLAINTEXT"
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        # Nodes connect to each other without a login.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        f"{clients}.plain.sasl.jaas.config": jaas({ADMIN: PASSWORD}),
        f"{clients}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{clients}.scram-sha-512.sasl.jaas.config": _SCRAM,
        "delegation.token.secret.key": "the secret of all nodes",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("kind", choices=[str(each) for each in ClusterKind])
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    kind = ClusterKind(options.kind)
    directory: Path = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    with Cluster.running(_shape(options.engine, kind), directory) as cluster:
        address = _bootstrap(cluster, kind)
        if kind.is_secured:
            file = directory / "client.properties"
            file.write_text("".join(f"{k}={v}\n" for k, v in _client_options().items()))
            address += f",{file}"
        print(address, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
