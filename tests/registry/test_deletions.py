"""Soft and permanent deletions, and the records that they leave."""

import pytest

from tests.registry.rest import Answer, Rest, record, refused
from wirekafka.registry.writer import MemoryWriter

A, B, C = record(name="A"), record(name="B"), record(name="C")


@pytest.fixture
def rest() -> Rest:
    return Rest()


def test_versions_and_subjects_are_deleted_softly_then_for_good(rest: Rest) -> None:
    """The sequence of requests, answers and records was taken from Confluent's registry."""
    rest("PUT /config/t", {"compatibility": "NONE"})
    assert rest.register("t", A) == 1
    assert rest.register("t", B) == 2
    assert rest("DELETE /subjects/t/versions/1") == Answer(200, 1)
    assert rest("GET /subjects/t/versions").body == [2]
    assert rest("GET /subjects/t/versions?deleted=true").body == [1, 2]
    assert rest("GET /subjects/t/versions?deletedOnly=true").body == [1]
    assert rest("GET /subjects/t/versions/1") == refused(404, 40402, "Version 1 not found.")
    assert rest("GET /subjects/t/versions/1?deleted=true").body["deleted"] is True
    assert rest("GET /schemas/ids/1").body["schema"] == A
    assert rest("DELETE /subjects/t/versions/1") == refused(
        404,
        40406,
        "Subject 't' Version 1 was soft deleted.Set permanent=true to delete permanently",
    )
    assert rest("DELETE /subjects/t/versions/2?permanent=true") == refused(
        404, 40407, "Subject 't' Version 2 was not deleted first before being permanently deleted"
    )
    assert rest("DELETE /subjects/t/versions/1?permanent=true") == Answer(200, 1)
    assert rest("GET /schemas/ids/1") == refused(404, 40403, "Schema 1 not found")
    assert rest.register("d", A) == 3
    assert rest("DELETE /subjects/d?permanent=true") == refused(
        404, 40405, "Subject 'd' was not deleted first before being permanently deleted"
    )
    assert rest("DELETE /subjects/d") == Answer(200, [1])
    assert rest("DELETE /subjects/d") == refused(
        404, 40404, "Subject 'd' was soft deleted.Set permanent=true to delete permanently"
    )
    assert rest("DELETE /subjects/d?permanent=true") == Answer(200, [1])
    assert [(key, value and "deleted" in value) for key, value in rest.written()] == [
        ('{"keytype":"CONFIG","subject":"t","magic":0}', False),
        ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', True),
        ('{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}', True),
        ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', True),
        ('{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', None),
        ('{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}', True),
        ('{"keytype":"DELETE_SUBJECT","subject":"d","magic":0}', False),
        ('{"keytype":"SCHEMA","subject":"d","version":1,"magic":1}', None),
    ]


def test_a_deleted_subject_loses_its_settings(rest: Rest) -> None:
    rest.register("s", A)
    rest("PUT /config/s", {"compatibility": "NONE"})
    rest("PUT /mode/s", {"mode": "READWRITE"})
    rest("DELETE /subjects/s/versions/latest")
    assert rest("GET /config/s").status == rest("GET /mode/s").status == 404
    assert rest("GET /subjects").body == []
    assert rest("GET /subjects?deleted=true").body == ["s"]
    assert rest("GET /subjects?deletedOnly=true").body == ["s"]


def test_a_schema_that_comes_back_has_its_id_and_a_new_version(rest: Rest) -> None:
    rest("PUT /config", {"compatibility": "NONE"})
    rest.register("s", A)
    rest.register("s", B)
    rest("DELETE /subjects/s")
    assert rest.register("s", A) == 1
    assert rest("GET /subjects/s/versions").body == [3]
    rest("DELETE /subjects/s")
    rest("DELETE /subjects/s?permanent=true")
    assert rest.register("s", C) == 3
    assert rest("GET /subjects/s/versions").body == [1]


def test_the_highest_id_is_never_given_again(rest: Rest) -> None:
    assert rest.register("s", A) == 1
    rest("DELETE /subjects/s")
    rest("DELETE /subjects/s?permanent=true")
    assert rest.register("s", B) == 2


def test_a_version_that_others_refer_to_stays(rest: Rest) -> None:
    rest.register("base", A)
    reference = {"name": "A", "subject": "base", "version": 1}
    holder = '{"type":"record","name":"H","fields":[{"name":"a","type":"A"}]}'
    id = rest.register("holder", holder, references=[reference])
    assert rest("GET /schemas/ids/2").body["references"] == [reference]
    assert rest("GET /subjects/base/versions/1/referencedby") == Answer(200, [id])
    message = (
        "One or more references exist to the schema "
        "{magic=1,keytype=SCHEMA,subject=base,version=1}."
    )
    assert rest("DELETE /subjects/base/versions/1") == refused(422, 42206, message)
    assert rest("DELETE /subjects/base") == refused(422, 42206, message)
    rest("DELETE /subjects/holder")
    assert rest("GET /subjects/base/versions/1/referencedby") == Answer(200, [])
    assert rest("DELETE /subjects/base") == Answer(200, [1])


def test_a_registry_that_reads_the_records_again_answers_the_same(rest: Rest) -> None:
    rest("PUT /config", {"compatibility": "NONE"})
    for subject, text in (("s", A), ("s", B), ("t", A), (":.c:s", C)):
        rest.register(subject, text)
    rest("DELETE /subjects/s/versions/1")
    rest("DELETE /subjects/t")
    rest("PUT /mode/s", {"mode": "READONLY"})
    again = Rest(MemoryWriter(rest.writer.entries))
    for line in (
        "GET /subjects?deleted=true",
        "GET /subjects",
        "GET /schemas/ids/1/versions?deleted=true",
        "GET /subjects/s/versions?deleted=true",
        "GET /contexts",
        "GET /mode/s",
        "GET /config",
        "GET /schemas/ids/1?subject=:.c:&fetchMaxId=true",
    ):
        assert again(line) == rest(line), line
