"""The client of schema registries against the registry of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.registry.plain_schemas import use_plain_schemas
from tests.registry.served_registry import KEY, Served, served_registry
from wirekafka.client.schema_registry import Decoder, RegistryRefused, SchemaRegistry
from wirekafka.registry.faults import SPARED_HEADER
from wirekafka.schemas.framing import with_id
from wirekafka.schemas.schema import Dependency, Format, SchemaReference
from wirekafka.testing.registry.schemas import Schemas


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    use_plain_schemas(monkeypatch)
    with served_registry() as served:
        yield served


@pytest.fixture
def registry(served: Served) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(served.url) as registry:
        yield registry


def test_schemas_are_registered_found_and_deleted(registry):
    id = registry.register("orders/ü-value", "Order")
    found = registry.version("orders/ü-value")
    assert (found.id, found.version, found.text, found.format) == (id, 1, "Order", Format.AVRO)
    assert found.guid is not None
    assert registry.schema_of_guid(found.guid).text == registry.schema(id).text == "Order"
    assert registry.subjects() == registry.subjects("orders") == ["orders/ü-value"]
    assert registry.incompatibilities("orders/ü-value", "Newer") == []
    assert registry.delete("orders/ü-value") == [1]
    assert registry.subjects() == []
    assert registry.subjects(deleted=True) == ["orders/ü-value"]
    assert registry.versions("orders/ü-value", deleted=True) == [1]
    assert registry.delete("orders/ü-value", 1, permanent=True) == [1]
    with pytest.raises(RegistryRefused) as refused:
        registry.version("orders/ü-value")
    assert refused.value.code == 40401


def test_references_are_resolved_in_the_context_of_their_schema(registry):
    registry.register("common", "Default", Format.PROTOBUF)
    registry.register(":.other:common", "Other", Format.PROTOBUF)
    to_common = SchemaReference("common.proto", "common", 1)
    registry.register(":.other:orders", "Orders", Format.PROTOBUF, [to_common])
    assert registry.version(":.other:orders").parsed.dependencies == [
        Dependency("common.proto", "Other")
    ]
    to_latest = SchemaReference("common.proto", "common", -1)
    registry.register("orders", "Orders", Format.PROTOBUF, [to_latest])
    parsed = registry.version("orders").parsed
    assert parsed.dependencies == [Dependency("common.proto", "Default")]


def test_an_id_that_does_not_exist_is_a_reason(registry):
    found = Decoder(registry).decoded(with_id(77, b"{}"), is_key=False)
    assert found.error == "the registry has no schema with id 77"


def test_faults_disturb_clients_and_not_the_test(served, registry):
    own = SchemaRegistry(served.url, headers={SPARED_HEADER: KEY})
    schemas = Schemas(lambda: own, served.faults)
    with schemas.fail("POST /subjects/*/versions", 503, message="down", times=1) as fault:
        assert schemas.register("a", "A") == 1
        with pytest.raises(RegistryRefused, match="down"):
            registry.register("b", "B")
        assert registry.register("b", "B") == 2
    assert fault.hits == 1
    with schemas.fail(applied=True), pytest.raises(RegistryRefused, match="as the test wants"):
        registry.register("c", "C")
    assert schemas.latest("c").text == "C"
    with schemas.delay(600, "GET /subjects"):
        late = SchemaRegistry(served.url, timeout_s=0.1)
        with pytest.raises(Exception, match="timed out"):
            late.subjects()
    assert registry.subjects() == ["a", "b", "c"]
