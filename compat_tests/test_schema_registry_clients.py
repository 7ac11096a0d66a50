"""Confluent's client of schema registries and its serializers, unchanged, over a socket."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from tests.eventually import eventually
from wirekafka.registry.app import create
from wirekafka.registry.writer import MemoryWriter

USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'
USER_WITH_AGE = (
    '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":"int","default":0}]}'
)
USER_WITH_ADDRESS = (
    '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},'
    '{"name":"address","type":"string"}]}'
)
PERSON = """{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Person",
"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}"""


@pytest.fixture
def url() -> Iterator[str]:
    """A registry in memory, on a socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create(MemoryWriter()), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve([listening]),))
    thread.start()
    eventually(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def values_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_schemas_are_registered_evolved_and_read(client: SchemaRegistryClient) -> None:
    first, second = Schema(USER, "AVRO"), Schema(USER_WITH_AGE, "AVRO")
    assert client.register_schema("s", first) == 1
    assert client.register_schema("s", second) == 2
    assert client.get_subjects() == ["s"]
    assert client.get_versions("s") == [1, 2]
    assert client.get_schema(1).schema_str == USER
    latest = client.get_latest_version("s")
    assert (latest.schema_id, latest.version, latest.subject) == (2, 2, "s")
    assert client.get_version("s", 1).schema.schema_str == USER
    assert client.lookup_schema("s", first).version == 1
    assert client.get_schema_by_guid(latest.guid).schema_str == USER_WITH_AGE
    assert [each.subject for each in client.get_schema_versions(2)] == ["s"]
    assert client.get_subjects_by_schema_id(2) == ["s"]
    full = client.register_schema_full_response("t", first)
    assert (full.schema_id, full.version) == (1, 1)
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


def test_incompatible_schemas_are_refused(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(USER, "AVRO"))
    refused = Schema(USER_WITH_ADDRESS, "AVRO")
    assert client.test_compatibility("s", refused) is False
    with pytest.raises(SchemaRegistryError) as raised:
        client.register_schema("s", refused)
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 409)
    client.set_compatibility("s", "FORWARD")
    assert client.get_compatibility("s") == "FORWARD"
    assert client.test_compatibility("s", refused) is True
    assert client.test_compatibility_all_versions("s", refused) is True
    assert client.register_schema("s", refused) == 2


def test_references_hold_what_they_refer_to(client: SchemaRegistryClient) -> None:
    client.register_schema("user", Schema(USER, "AVRO"))
    text = '{"type":"record","name":"Team","fields":[{"name":"lead","type":"User"}]}'
    team = Schema(text, "AVRO", [SchemaReference("User", "user", 1)])
    id = client.register_schema("team", team)
    assert client.get_schema(id).references == [SchemaReference("User", "user", 1)]
    assert client.get_referenced_by("user", 1) == [id]
    with pytest.raises(SchemaRegistryError) as raised:
        client.delete_version("user", 1)
    assert raised.value.error_code == 42206


def test_versions_and_subjects_are_deleted(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(USER, "AVRO"))
    client.register_schema("s", Schema(USER_WITH_AGE, "AVRO"))
    assert client.delete_version("s", 1) == 1
    assert client.get_versions("s") == [2]
    assert client.get_versions("s", deleted=True) == [1, 2]
    assert client.delete_version("s", 1, permanent=True) == 1
    assert client.delete_subject("s") == [2]
    assert client.delete_subject("s", permanent=True) == [2]
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_latest_version("s")
    assert raised.value.error_code == 40401
    assert client.get_subjects(deleted=True) == []


def test_configurations_modes_and_contexts(client: SchemaRegistryClient) -> None:
    metadata = Metadata(None, MetadataProperties({"owner": "me"}), None)
    rule = Rule(
        "check",
        None,
        RuleKind.CONDITION,
        RuleMode.WRITE,
        "CEL",
        None,
        None,
        "true",
        None,
        None,
        disabled=False,
    )
    config = ServerConfig(
        compatibility=ConfigCompatibilityLevel.FULL,
        default_metadata=metadata,
        override_rule_set=RuleSet(None, [rule]),
    )
    client.set_config("s", config)
    read = client.get_config("s")
    assert read.compatibility_level == "FULL"
    assert read.default_metadata.properties == metadata.properties
    client.register_schema("s", Schema(USER, "AVRO"))
    found = client.get_latest_with_metadata("s", {"owner": "me"})
    assert found.schema.rule_set.domain_rules[0].name == "check"
    client.delete_config("s")
    client.update_mode("s", "READONLY")
    assert client.get_mode("s") == "READONLY"
    with pytest.raises(SchemaRegistryError) as raised:
        client.register_schema("s", Schema(USER_WITH_AGE, "AVRO"))
    assert raised.value.error_code == 42205
    client.delete_mode("s")
    assert client.update_global_mode("READWRITE") == "READWRITE"
    assert client.get_global_mode() == "READWRITE"
    client.register_schema(":.c:s", Schema(USER, "AVRO"))
    assert client.get_contexts() == [".", ".c"]


def test_avro_values_make_the_round_trip(client: SchemaRegistryClient) -> None:
    context = values_of("users")
    older, newer = AvroSerializer(client, USER), AvroSerializer(client, USER_WITH_AGE)
    data = older({"name": "Ann"}, context)
    reader = AvroDeserializer(client, USER_WITH_AGE)
    assert reader(data, context) == {"name": "Ann", "age": 0}
    data = newer({"name": "Bob", "age": 5}, context)
    assert AvroDeserializer(client)(data, context) == {"name": "Bob", "age": 5}
    assert client.get_versions("users-value") == [1, 2]


def test_a_guid_in_headers_names_the_schema(client: SchemaRegistryClient) -> None:
    context = values_of("users")
    context.headers = []
    conf = {"schema.id.serializer": header_schema_id_serializer}
    data = AvroSerializer(client, USER, conf=conf)({"name": "Annabel"}, context)
    assert [name for name, _ in context.headers] == ["__value_schema_id"]
    with SchemaRegistryClient(client.config()) as other:
        read = AvroDeserializer(other, conf={"schema.id.deserializer": dual_schema_id_deserializer})
        assert read(data, context) == {"name": "Annabel"}


def test_json_values_make_the_round_trip(client: SchemaRegistryClient) -> None:
    context = values_of("people")
    data = JSONSerializer(PERSON, client)({"name": "Ann"}, context)
    assert JSONDeserializer(PERSON, schema_registry_client=client)(data, context) == {"name": "Ann"}
    assert client.get_latest_version("people-value").schema.schema_type == "JSON"


def test_protobuf_values_make_the_round_trip(client: SchemaRegistryClient) -> None:
    note = _note()
    context, conf = values_of("notes"), {"use.deprecated.format": False}
    value = note(text="x", at={"seconds": 5}, author={"name": "Ann"})
    data = ProtobufSerializer(note, client, conf)(value, context)
    assert ProtobufDeserializer(note, conf)(data, context) == value
    assert ProtobufDeserializer(note, conf, client)(data, context) == value
    assert client.get_subjects() == ["author.proto", "notes-value"]
    with SchemaRegistryClient(client.config()) as other:
        assert ProtobufDeserializer(note, conf, other)(data, context) == value
        latest = other.get_latest_version("notes-value")
    assert latest.schema.schema_str.startswith('syntax = "proto3";')
    assert [each.name for each in latest.schema.references] == ["author.proto"]


def _note() -> Any:
    """The class of a message whose file imports a file of its own, and a well-known one."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    author = descriptor_pb2.FileDescriptorProto(name="author.proto", syntax="proto3")
    author.message_type.add(name="Author").field.add(name="name", number=1, type=9, label=1)
    pool.Add(author)
    file = descriptor_pb2.FileDescriptorProto(name="note.proto", syntax="proto3")
    file.dependency.extend(["author.proto", "google/protobuf/timestamp.proto"])
    message = file.message_type.add(name="Note")
    message.field.add(name="text", number=1, type=9, label=1)
    message.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    message.field.add(name="author", number=3, type=11, label=1, type_name=".Author")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Note"))
