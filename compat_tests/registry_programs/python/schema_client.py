"""python-schema-registry-client against a registry: `schema_client.py URL [USER PASSWORD]`."""

import asyncio
import json
import sys

from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient
from schema_registry.client.errors import ClientError
from schema_registry.client.schema import AvroSchema, JsonSchema
from schema_registry.serializers import AvroMessageSerializer, JsonMessageSerializer

ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}


def settings():
    url, *login = sys.argv[1:]
    if not login:
        return {"url": url}
    return {
        "url": url,
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": ":".join(login),
    }


def connect():
    return SchemaRegistryClient(settings())


def record(*fields):
    return AvroSchema({"type": "record", "name": "Order", "namespace": "psrc", "fields": fields})


def avro():
    client, subject = connect(), "psrc-avro-value"
    number = client.register(subject, record(ID))
    assert connect().register(subject, record(ID)) == number
    serializer = AvroMessageSerializer(client)
    data = serializer.encode_record_with_schema(subject, record(ID), {"id": 7})
    assert AvroMessageSerializer(connect()).decode_message(data) == {"id": 7}
    broken = record({"name": "id", "type": "boolean"})
    assert not client.test_compatibility(subject, broken)
    assert client.test_compatibility(subject, record(ID, NOTE))
    refused(lambda: client.register(subject, broken), 409)
    newer = client.register(subject, record(ID, NOTE))
    assert newer > number and client.get_versions(subject) == [1, 2]
    assert client.get_schema(subject).schema_id == newer
    assert connect().get_by_id(number) == record(ID)
    assert connect().check_version(subject, record(ID)).version == 1
    assert subject in client.get_subjects()
    places = client.get_schema_subject_versions(number)
    assert [(place.subject, place.version) for place in places] == [(subject, 1)]
    assert client.get_schema("psrc-nothing") is None


def levels():
    client, subject = connect(), "psrc-levels-value"
    client.register(subject, record(ID))
    assert client.get_compatibility() == "BACKWARD"
    refused(lambda: client.get_compatibility(subject), 404)
    assert client.update_compatibility("FULL", subject)
    assert client.get_compatibility(subject) == "FULL"
    refused(lambda: client.register(subject, record(ID, {"name": "more", "type": "int"})), 409)


def json_schema():
    client, subject = connect(), "psrc-json-value"
    schema = JsonSchema({"type": "object", "properties": {"id": {"type": "integer"}}})
    data = JsonMessageSerializer(client).encode_record_with_schema(subject, schema, {"id": 7})
    assert JsonMessageSerializer(connect()).decode_message(data) == {"id": 7}
    broken = JsonSchema({"type": "object", "properties": {"id": {"type": "string"}}})
    refused(lambda: client.register(subject, broken), 409)


def deletes():
    client, subject = connect(), "psrc-deletes-value"
    client.register(subject, record(ID))
    client.register(subject, record(ID, NOTE))
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.delete_subject(subject) == [2]
    assert client.get_versions(subject) == []


def asynchronous():
    async def run():
        client = AsyncSchemaRegistryClient(settings())
        number = await client.register("psrc-async-value", record(ID))
        assert await client.get_by_id(number) == record(ID)

    asyncio.run(run())


def refused(call, status):
    try:
        found = call()
    except ClientError as error:
        assert error.http_code == status, error
    else:
        raise AssertionError(f"not refused: {json.dumps(found)}")


if __name__ == "__main__":
    for program in (avro, levels, json_schema, deletes, asynchronous):
        program()
        print("ok", program.__name__)
