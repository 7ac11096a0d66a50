"""Keys and values that name their schemas: decoded, or with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.registry.fake_registry import FakeRegistry, Fault, fake_registry
from tests.registry.plain_schemas import use_plain_schemas
from wirekafka.client.schema_registry import Decoder, SchemaRegistry
from wirekafka.schemas import formats
from wirekafka.schemas.framing import framed, with_id
from wirekafka.schemas.schema import Dependency, Format, SchemaReference


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


@pytest.fixture
def decoder(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> Decoder:
    use_plain_schemas(monkeypatch)
    return Decoder(SchemaRegistry(fake.url, timeout_s=5))


def test_a_value_is_decoded_by_the_id_of_its_prefix(decoder):
    id = decoder.registry.register("orders-value", "Order")
    found = decoder.decoded(with_id(id, b'{"a": 1}'), is_key=False)
    assert (found.value, found.error, found.id, found.name) == ({"a": 1}, None, id, "Order")
    assert found.reference == f"id {id}"
    assert found.schema is decoder.registry.schema(id)


def test_a_key_is_decoded_by_the_guid_of_its_own_header(fake, decoder):
    guid = fake.guid(decoder.registry.register("orders-key", "Key"))
    headers = [("other", b"\0"), ("__key_schema_id", b"\1" + guid.bytes)]
    found = decoder.decoded(b'{"a": 1}', is_key=True, headers=headers)
    assert (found.value, found.guid, found.name) == ({"a": 1}, guid, "Key")
    assert found.reference == f"GUID {guid}"
    assert decoder.decoded(b'{"a": 1}', is_key=False, headers=headers) is None


def test_the_header_of_a_protobuf_message_ends_with_the_indexes_of_its_type():
    guid = UUID(int=7)
    header = ("__value_schema_id", b"\1" + guid.bytes + b"\2\0\1")
    found = framed(b"message", headers=[header])
    assert (found.guid, found.payload) == (guid, b"\2\0\1message")
    found = framed(b"message", headers=[("__value_schema_id", b"\0\0\0\0\5\0")])
    assert (found.id, found.payload) == (5, b"\0message")


@pytest.mark.parametrize(
    "data", [None, b"", b"text", b"\0\0\0\1", b"\1" + bytes(15), b"\2" * 20, b"\0\xff" * 4]
)
def test_data_that_name_no_schema_are_not_decoded(fake, decoder, data):
    assert decoder.decoded(data, is_key=False) is None
    assert fake.seen == []


def test_data_that_name_a_schema_by_chance_have_a_reason_in_place_of_a_value(decoder):
    found = decoder.decoded(b"\0\0\0\0\7text", is_key=False)
    assert (found.value, found.error) == (None, "the registry has no schema with id 7")
    found = decoder.decoded(b"\1" + UUID(int=1).bytes, is_key=False)
    assert found.error == f"the registry has no schema with GUID {UUID(int=1)}"


def test_a_payload_or_schema_that_cannot_be_read_is_a_reason(fake, decoder):
    good = decoder.registry.register("a", "Order")
    broken = decoder.registry.register("b", "broken")
    assert decoder.decoded(with_id(good, b"{"), is_key=False).error == "no object"
    for _ in range(2):
        found = decoder.decoded(with_id(broken, b"{}"), is_key=False)
        assert found.error == "broken is no schema"
        assert found.schema.text == "broken"


def test_a_registry_that_refuses_or_is_gone_is_a_reason(fake, decoder):
    fake.faults.append(Fault(500, b'{"error_code": 50001, "message": "Error in the store"}'))
    found = decoder.decoded(with_id(1, b"{}"), is_key=False)
    assert found.error == "the schema registry refuses: Error in the store (error code 50001)"
    fake.stop()
    gone = Decoder(SchemaRegistry(fake.url, timeout_s=1))
    assert gone.decoded(with_id(1, b"{}"), is_key=False).error == (
        f"no response from {fake.url}: Connection refused"
    )


def test_a_schema_is_parsed_once_with_all_that_it_refers_to(fake, decoder):
    registry = decoder.registry
    registry.register("c", "C", Format.PROTOBUF)
    registry.register("b", "B", Format.PROTOBUF, [SchemaReference("c.proto", "c", 1)])
    id = registry.register("a", "A", Format.PROTOBUF, [SchemaReference("b.proto", "b", 1)])
    for _ in range(2):
        assert decoder.decoded(with_id(id, b"{}"), is_key=False).value == {}
    assert registry.schema(id).parsed is registry.schema(id).parsed
    assert registry.schema(id).parsed.dependencies == [
        Dependency("c.proto", "C"),
        Dependency("b.proto", "B"),
    ]
    assert [path for path in fake.paths if path.startswith("GET")] == [
        f"GET /schemas/ids/{id}",
        "GET /subjects/b/versions/1",
        "GET /subjects/c/versions/1",
    ]


def test_missing_parsers_are_a_reason(fake, decoder, monkeypatch):
    def no_parser(*given):
        raise ImportError("No module named 'avro'")

    monkeypatch.setattr(formats, "parse_stored", no_parser)
    id = decoder.registry.register("a", "A")
    assert decoder.decoded(with_id(id, b"{}"), is_key=False).error == (
        "No module named 'avro': pip install 'wirekafka[registry]'"
    )
