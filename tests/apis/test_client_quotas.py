"""AlterClientQuotas and DescribeClientQuotas, with Kafka's messages for invalid requests."""

from types import coroutine

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.alter_client_quotas import alter_client_quotas
from wirekafka.apis.describe_client_quotas import (
    describe_client_quotas,
    describe_client_quotas_failure,
)
from wirekafka.apis.shared.turns import ELEMENTS_PER_TURN
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.quotas import ANY, DEFAULT, EXACT
from wirekafka.protocol.alter_client_quotas import AlterClientQuotasRequest
from wirekafka.protocol.describe_client_quotas import DescribeClientQuotasRequest

USER, BOTH = {"user": "u"}, {"user": "u", "client-id": "c"}


@pytest.fixture
def cluster():
    return Cluster()


def alter(cluster, *changes, version=1, validate_only=False):
    """Each change is (entity, quotas by name, None to remove); returns (error, message) each."""
    entry = AlterClientQuotasRequest.EntryData
    response = cluster.call(
        alter_client_quotas,
        AlterClientQuotasRequest(
            validate_only=validate_only,
            entries=[
                entry(
                    entity=[
                        entry.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    ops=[
                        entry.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in values.items()
                    ],
                )
                for entity, values in changes
            ],
        ),
        version,
    )
    return [(each.error_code, each.error_message) for each in response.entries]


def describe(cluster, *components, strict=False, version=1):
    component = DescribeClientQuotasRequest.ComponentData
    response = cluster.call(
        describe_client_quotas,
        DescribeClientQuotasRequest(
            strict=strict,
            components=[
                component(entity_type=kind, match_type=how, match=name)
                for kind, how, name in components
            ],
        ),
        version,
    )
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_a_filter_lists_the_quotas_of_the_entities_it_matches(cluster, version):
    rate = {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}
    everyone, share = {"user": None}, {"request_percentage": 12.5}
    done = alter(cluster, (USER, rate), (BOTH, share), (everyone, rate), version=version)
    assert done == [(0, None)] * 3
    assert describe(cluster, ("user", EXACT, "u"), version=version) == [(USER, rate), (BOTH, share)]
    assert describe(cluster, ("user", EXACT, "u"), strict=True) == [(USER, rate)]
    assert describe(cluster, ("client-id", ANY, None)) == [(BOTH, share)]
    assert describe(cluster, ("user", DEFAULT, None)) == [(everyone, rate)]
    assert len(describe(cluster)) == 3
    assert describe(cluster, strict=True) == []


def test_types_and_quotas_are_listed_in_kafkas_order(cluster):
    three = {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0, "request_percentage": 3.0}
    alter(cluster, (USER, three), (BOTH, three | {"controller_mutation_rate": 4.0}))
    user, both = cluster.call(describe_client_quotas, DescribeClientQuotasRequest(), 1).entries
    assert [part.entity_type for part in both.entity] == ["client-id", "user"]
    assert [value.key for value in user.values] == [
        "consumer_byte_rate",
        "request_percentage",
        "producer_byte_rate",
    ]
    assert [value.key for value in both.values] == [
        "producer_byte_rate",
        "consumer_byte_rate",
        "controller_mutation_rate",
        "request_percentage",
    ]


def test_an_entity_is_the_same_whatever_the_order_of_its_types(cluster):
    swapped = {"client-id": "c", "user": "u"}
    entry = AlterClientQuotasRequest.EntryData
    entities = [
        [entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        for entity in (BOTH, swapped)
    ]
    ops = [entry.OpData(key="producer_byte_rate", value=5.0)]
    request = AlterClientQuotasRequest(entries=[entry(entity=each, ops=ops) for each in entities])
    [result] = cluster.call(alter_client_quotas, request, 1).entries
    assert result.error_code == Error.INVALID_REQUEST
    assert result.error_message == (
        "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=u})"
    )
    assert [part.entity_type for part in result.entity] == ["client-id", "user"]


def test_quotas_outlive_a_restart_of_the_controller(cluster):
    alter(cluster, (USER, {"producer_byte_rate": 5.0}))
    assert [record.key for record in cluster.image.security.before_producer_ids()] == [
        "producer_byte_rate"
    ]


def test_a_removed_quota_is_gone_and_removing_it_again_is_no_error(cluster):
    alter(cluster, (USER, {"producer_byte_rate": 5.0}))
    assert alter(cluster, (USER, {"producer_byte_rate": None})) == [(0, None)]
    assert describe(cluster) == []
    before = cluster.log.end_offset
    assert alter(cluster, (USER, {"never_was": None})) == [(0, None)]
    assert cluster.log.end_offset == before


def test_a_dry_run_changes_nothing(cluster):
    assert alter(cluster, (USER, {"producer_byte_rate": 5.0}), validate_only=True) == [(0, None)]
    assert describe(cluster) == []


def test_a_host_that_has_an_address_may_have_a_quota(cluster):
    entity = {"ip": "clients.test"}
    assert alter(cluster, (entity, {"connection_creation_rate": 3.0})) == [(0, None)]
    assert describe(cluster) == [(entity, {"connection_creation_rate": 3.0})]


@pytest.mark.parametrize(
    ("entity", "values", "message"),
    [
        (USER, {"bogus": 1.0}, "Invalid configuration key bogus"),
        ({}, {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ({"x": "y"}, {"producer_byte_rate": 1.0}, "Unhandled client quota entity type: x"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "Empty user not supported"),
        (
            {"user": "u", "ip": "1.2.3.4"},
            {"connection_creation_rate": 1.0},
            "Invalid quota entity combination, IP entity shouldnot be combined "
            "with User or ClientId",
        ),
        (
            {"ip": "1.2.3.4"},
            {"producer_byte_rate": 1.0},
            "Invalid configuration key producer_byte_rate",
        ),
        (
            {"ip": "not an ip!"},
            {"connection_creation_rate": 1.0},
            "not an ip! is not a valid IP or resolvable host.",
        ),
        (
            {"ip": "nobody.test"},
            {"connection_creation_rate": 1.0},
            "nobody.test is not a valid IP or resolvable host.",
        ),
        (USER, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (USER, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (
            USER,
            {"producer_byte_rate": 1e30},
            "Proposed value for producer_byte_rate is too large for a LONG.",
        ),
        (
            {"ip": "192.0.2.1"},
            {"connection_creation_rate": 1e10},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_invalid_quotas_are_refused(cluster, entity, values, message):
    assert alter(cluster, (entity, values)) == [(Error.INVALID_REQUEST, message)]
    assert describe(cluster) == []


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("x", EXACT, "y")], Error.UNSUPPORTED_VERSION, "Unsupported entity type x"),
        ([("user", 7, "y")], Error.INVALID_REQUEST, "Unknown match type 7"),
        (
            [("user", EXACT, None)],
            Error.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", ANY, "y")],
            Error.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("user", EXACT, "a"), ("user", EXACT, "b")],
            Error.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("", EXACT, "a")], Error.INVALID_REQUEST, "Invalid empty entity type."),
        (
            [("ip", EXACT, "a"), ("user", EXACT, "b")],
            Error.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component "
            "should not be used with "
            "user or clientId filter component.",
        ),
    ],
)
def test_an_invalid_filter_is_refused(cluster, components, error, message):
    with pytest.raises(KafkaError) as refused:
        describe(cluster, *components)
    assert (refused.value.error, refused.value.message) == (error, message)
    response = describe_client_quotas_failure(DescribeClientQuotasRequest(), refused.value, None)
    assert (response.error_code, response.error_message, response.entries) == (error, message, None)


class Unread(dict):
    """Stored quotas that nobody looks through."""

    def items(self):
        raise AssertionError("looked through")

    __iter__ = keys = values = items


def test_changes_look_up_the_quotas_they_change_however_many_are_stored(cluster):
    stored = cluster.controller.machine.image.security
    changes = [({"user": f"u{n}"}, {"producer_byte_rate": 1.0}) for n in range(600)]
    stored.quotas = Unread(stored.quotas)
    assert set(alter(cluster, *changes)) == {(0, None)}
    stored.quotas = dict(dict.items(stored.quotas))
    assert len(describe(cluster, ("user", ANY, None))) == 600


def test_a_list_of_many_quotas_takes_several_turns(cluster, monkeypatch):
    turns = []

    @coroutine
    def counted():
        turns.append(None)
        yield from ()

    alter(cluster, *(({"user": f"u{n}"}, {"producer_byte_rate": 1.0}) for n in range(600)))
    monkeypatch.setattr("wirekafka.apis.shared.turns.next_turn", counted)
    assert len(describe(cluster, ("user", ANY, None))) == 600
    assert len(turns) == 1200 // ELEMENTS_PER_TURN
