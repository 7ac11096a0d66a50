"""The bytes of the records of `_schemas`, and topics that other registries wrote."""

import json
import logging
import time

import pytest

from wirekafka.registry import records
from wirekafka.registry.entry import Entry
from wirekafka.registry.records import (
    ClearSubjectRecord,
    ConfigRecord,
    ContextRecord,
    DeleteSubjectRecord,
    ModeRecord,
    RegistryRecord,
    SchemaContent,
    SchemaRecord,
    SchemaTombstone,
)
from wirekafka.registry.state import RegistryState
from wirekafka.schemas.schema import SchemaReference

GUID = "5c6c5f26-e876-e5ab-02b0-8d9bebbc90d7"
OF_OTHERS = SchemaContent(
    "PROTOBUF",
    'syntax = "proto3";\n',
    (SchemaReference("money.proto", "pb_money", 1),),
    {"tags": {"f": ["PII"]}, "properties": {"o": "ö"}},
    {"domainRules": [{"name": "r", "disabled": False}]},
)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            SchemaRecord("s", 1, 2, GUID, SchemaContent("AVRO", '"int"')),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            f'{{"subject":"s","version":1,"id":2,"guid":"{GUID}","schema":"\\"int\\"",'
            '"deleted":false}',
        ),
        (
            SchemaRecord("s", 1, 2, GUID, SchemaContent("AVRO", "\x1f\x1f\\u001f\n\u2028/é")),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            f'{{"subject":"s","version":1,"id":2,"guid":"{GUID}",'
            '"schema":"\\u001F\\u001F\\\\u001f\\n\u2028/é","deleted":false}',
        ),
        (
            SchemaRecord("s", 3, 2, GUID, OF_OTHERS, deleted=True),
            '{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}',
            f'{{"subject":"s","version":3,"id":2,"guid":"{GUID}","schemaType":"PROTOBUF",'
            '"references":[{"name":"money.proto","subject":"pb_money","version":1}],'
            '"metadata":{"tags":{"f":["PII"]},"properties":{"o":"ö"}},'
            '"ruleSet":{"domainRules":[{"name":"r","disabled":false}]},'
            '"schema":"syntax = \\"proto3\\";\\n","deleted":true}',
        ),
        (SchemaTombstone("s", 1), '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None),
        (
            ConfigRecord(None, {"compatibilityLevel": "FULL"}),
            '{"keytype":"CONFIG","subject":null,"magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
        (ConfigRecord("s", None), '{"keytype":"CONFIG","subject":"s","magic":0}', None),
        (
            ModeRecord("s", "READONLY"),
            '{"keytype":"MODE","subject":"s","magic":0}',
            '{"subject":"s","mode":"READONLY"}',
        ),
        (ModeRecord(None, None), '{"keytype":"MODE","subject":null,"magic":0}', None),
        (
            DeleteSubjectRecord("s", 2),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":2}',
        ),
        (
            ClearSubjectRecord("s"),
            '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s"}',
        ),
        (
            ContextRecord(".c"),
            '{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
            '{"tenant":"default","context":".c"}',
        ),
    ],
)
def test_a_record_has_confluents_bytes_and_is_read_back(
    record: RegistryRecord, key: str, value: str | None
) -> None:
    entry = record.entry()
    assert entry.key.decode() == key
    assert (None if entry.value is None else entry.value.decode()) == value
    assert records.decoded(entry) == record


def test_a_noop_changes_nothing() -> None:
    assert records.NOOP.key == b'{"keytype":"NOOP","magic":0}'
    assert records.decoded(records.NOOP) is None


def test_values_of_older_registries_are_read() -> None:
    """They have no GUID, no references, other orders, and properties that are not known."""
    state = RegistryState()
    key = b'{"subject":"s","version":1,"magic":0,"keytype":"SCHEMA"}'
    _replay(state, key, b'{"subject":"s","version":1,"id":21,"schema":"\\"string\\"","new":[1]}')
    (record,) = state.versions("s")
    assert (record.id, record.content) == (21, SchemaContent("AVRO", '"string"'))
    assert record.guid == SchemaContent("AVRO", '"string"').guid()
    assert state.of_guid(record.guid) == [record]


def test_a_guid_that_is_in_the_topic_is_kept() -> None:
    state = RegistryState()
    entry = SchemaRecord("s", 1, 7, GUID, SchemaContent("AVRO", '"int"')).entry()
    state.replay(entry, 0, 0)
    assert [each.id for each in state.of_guid(GUID)] == [7]
    assert [each.id for each in state.of_guid(SchemaContent("AVRO", '"int"').guid())] == [7]
    state.replay(SchemaTombstone("s", 1).entry(), 1, 0)
    assert state.of_guid(GUID) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\xff", None),
        (b"{}", None),
        (b"[]", None),
        (b'{"keytype":"ASSOCIATION","magic":0}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":"1","magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"["),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"[" * 100_000),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"mode":7}'),
        (b'{"keytype":"CONFIG","subject":5,"magic":0}', b"{}"),
        (b'{"keytype":"CONFIG","subject":"s","magic":0}', b"7"),
    ],
)
def test_a_record_that_cannot_be_understood_is_logged_and_skipped(
    key: bytes, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    state = RegistryState()
    with caplog.at_level(logging.WARNING):
        state.replay(Entry(key, value), 5, 0)
    assert state.end_offset == 6
    assert state.subjects(deleted=True) == []
    assert "at offset 5" in caplog.text


def test_ten_thousand_schemas_load_in_two_seconds() -> None:
    """It takes half a second of a core: no schema is parsed."""
    fields = [{"name": f"f{number}", "type": "string"} for number in range(20)]
    entries = []
    for number in range(10_000):
        text = json.dumps({"type": "record", "name": f"R{number}", "fields": fields})
        content = SchemaContent("AVRO", text)
        record = SchemaRecord(f"s{number % 3000}", number // 3000 + 1, number + 1, "", content)
        entries.append(record.entry())
    state = RegistryState()
    started_s = time.process_time()
    for offset, entry in enumerate(entries):
        state.replay(entry, offset, 0)
    assert time.process_time() - started_s < 2
    assert (len(state.subjects()), state.max_id(".")) == (3000, 10_000)


def _replay(state: RegistryState, key: bytes, value: bytes | None) -> None:
    state.replay(Entry(key, value), state.end_offset, 0)
