"""kafka_exporter, kminion and Burrow, unchanged, report the same of wirekafka and Apache Kafka.

Each runs if it is in PATH, against clusters in the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster import KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.exporter_stage import COMMITTED, SETTINGS, filled, lags
from compat_tests.exporters import (
    PROGRAMS,
    Access,
    Program,
    Sample,
    comparable,
    exporter,
    is_installed,
    scraped,
)
from compat_tests.measured_cluster import MeasuredCluster
from tests.eventually import eventually
from tests.server.serving import Serving

pytestmark = pytest.mark.skipif(
    not any(map(is_installed, PROGRAMS)),
    reason="neither kafka_exporter nor kminion nor burrow is in PATH",
)

LAGS = {
    "kafka_exporter": ("kafka_consumergroup_lag", "consumergroup", "topic", "partition"),
    "kminion": (
        "kminion_kafka_consumer_group_topic_partition_lag",
        "group_id",
        "topic_name",
        "partition_id",
    ),
    "burrow": ("burrow_kafka_consumer_partition_lag", "consumer_group", "topic", "partition"),
}
"""The metric that has the lag, and its labels of the group, the topic and the partition."""

_SHARED = (
    "kafka_topic_",
    "kafka_brokers",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
)

Pair = dict[str, Cluster]


@pytest.fixture(scope="module", params=[1, 3], ids=["a-node", "three-nodes"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A cluster of each engine, in the same state."""
    nodes, directory = request.param, tmp_path_factory.mktemp("exporters")
    ours, theirs = (
        Shape(brokers=(engine,) * nodes, controllers=nodes, settings=SETTINGS)
        for engine in (WIREKAFKA, KAFKA)
    )
    with (
        MeasuredCluster.running(ours, directory / WIREKAFKA) as wirekafka,
        Cluster.running(theirs, directory / KAFKA) as kafka,
        filled(wirekafka.brokers()[0].bootstrap, replicas=nodes),
        filled(kafka.brokers()[0].bootstrap, replicas=nodes),
    ):
        yield {WIREKAFKA: wirekafka, KAFKA: kafka}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """The administrator's access to a broker that `serve --secure` has set up."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with Serving(data, "--secure") as serving:
        made = data.with_name("data-security")
        password = (made / "password").read_text().strip()
        access = Access(f"127.0.0.1:{serving.port}", "admin", password, str(made / "ca.pem"))
        login = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": access.user,
            "sasl_password": access.password,
            "ssl_ca_location": access.authority,
        }
        with filled(access.bootstrap, **login):
            yield access


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    found: Program = request.param
    if not is_installed(found):
        pytest.skip(f"{found.name} is not in PATH")
    return found


def test_a_program_reports_the_same_of_both(pair: Pair, program: Program, tmp_path: Path) -> None:
    with (
        exporter(program, Access(pair[WIREKAFKA].bootstrap), tmp_path / WIREKAFKA) as ours,
        exporter(program, Access(pair[KAFKA].bootstrap), tmp_path / KAFKA) as theirs,
    ):
        seen: dict[str, list[Sample]] = {}

        def are_equal() -> bool:
            seen.update(ours=ours.samples(), theirs=theirs.samples())
            return seen["ours"] == seen["theirs"] and _has_lags(program, seen["ours"])

        try:
            eventually(are_equal, timeout_s=60, every_s=0.5)
        except AssertionError:
            assert seen["ours"] == seen["theirs"]
            raise
        assert ours.complaints() <= theirs.complaints()


def test_a_program_logs_in_by_scram_over_tls(
    secured: Access, program: Program, tmp_path: Path
) -> None:
    with exporter(program, secured, tmp_path / "exporter") as found:
        eventually(lambda: _has_lags(program, found.samples()), timeout_s=60, every_s=0.5)


def _has_lags(program: Program, samples: list[Sample]) -> bool:
    """Whether the lag of all that is committed is there, and right."""
    metric, *places = LAGS[program.name.partition("-")[0]]
    found = {
        tuple(dict(labels)[place] for place in places): value
        for name, labels, value in samples
        if name == metric
    }
    wanted = {
        (group, topic, str(partition)): lag
        for group in COMMITTED
        for (topic, partition), lag in lags(group).items()
    }
    return wanted.items() <= found.items()


def test_the_brokers_report_themselves_what_kafka_exporter_reports(
    pair: Pair, tmp_path: Path
) -> None:
    [program] = [each for each in PROGRAMS if each.name == "kafka_exporter"]
    if not is_installed(program):
        pytest.skip("kafka_exporter is not in PATH")
    cluster = pair[WIREKAFKA]
    assert isinstance(cluster, MeasuredCluster)

    def own() -> list[Sample]:
        urls = [f"http://{target.address}/metrics" for target in cluster.targets]
        return _shared(comparable([each for url in urls for each in scraped(url, "kafka_")]))

    with exporter(program, Access(cluster.bootstrap), tmp_path / "exporter") as found:
        try:
            eventually(lambda: own() == _shared(found.samples()), timeout_s=60, every_s=0.5)
        except AssertionError:
            assert own() == _shared(found.samples())
            raise


def _shared(samples: list[Sample]) -> list[Sample]:
    """What both report alike.

    For a partition that a group has not committed, kafka_exporter reports -1, also in the sum of
    the group's offsets; and no members of groups of newer protocols.
    """
    return [
        (name, labels, value)
        for name, labels, value in samples
        if name.startswith(_SHARED)
        and name != "kafka_consumergroup_current_offset_sum"
        and (value is None or value >= 0)
    ]
