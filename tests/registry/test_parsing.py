"""How a registry parses schemas: with all that they refer to, within bounds, each text once."""

import pytest

from tests.registry.rest import Rest, record
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.parsing import SchemaParser, dependencies
from wirekafka.registry.records import SchemaContent, SchemaRecord
from wirekafka.registry.state import RegistryState
from wirekafka.schemas.schema import SchemaReference


def put(state: RegistryState, subject: str, text: str, *references: SchemaReference) -> None:
    content = SchemaContent("AVRO", text, references)
    id = state.max_id(".") + 1
    record = SchemaRecord(subject, 1, id, content.guid(), content)
    state.replay(record.entry(), state.end_offset, 0)


def test_a_parsed_schema_is_kept_and_the_longest_unused_ones_are_forgotten() -> None:
    parser, state = SchemaParser(most_characters=1000), RegistryState()
    contents = [SchemaContent("AVRO", record(name=f"R{number}")) for number in range(100)]
    first = parser.later(state, "s", contents[0])()
    for content in contents[1:]:
        parser.later(state, "s", content)()
        assert parser.later(state, "s", contents[0])() is first
    again = [parser.later(state, "s", content)() for content in contents[1:]]
    assert parser.later(state, "s", contents[-1])() is again[-1]
    assert parser.later(state, "s", contents[0])() is not first


def test_dependencies_come_innermost_first_and_once() -> None:
    state = RegistryState()
    put(state, "a", record(name="A"))
    put(state, "b", record("a:A", name="B"), SchemaReference("A", "a", 1))
    references = (SchemaReference("B", "b", 1), SchemaReference("A", "a", -1))
    assert [each.name for each in dependencies(state, "c", references)] == ["A", "B"]


def test_subjects_of_references_are_in_the_context_of_the_schema() -> None:
    rest = Rest()
    rest.register(":.c:a", record(name="A"))
    named = [{"name": "A", "subject": "a", "version": 1}]
    assert rest.register(":.c:b", record("a:A", name="B"), references=named) == 2
    other = [{"name": "A", "subject": ":.c:a", "version": 1}]
    assert rest.register("b", record("a:A", name="B"), references=other) == 1
    assert rest("GET /subjects/:.c:a/versions/1/referencedby").body == [1, 2]


def test_references_that_lead_back_end() -> None:
    """Only imported records can do so."""
    state = RegistryState()
    put(state, "a", record(name="A"), SchemaReference("B", "b", 1))
    put(state, "b", record(name="B"), SchemaReference("A", "a", 1))
    names = [each.name for each in dependencies(state, "a", (SchemaReference("B", "b", 1),))]
    assert names == ["A", "B"]


@pytest.mark.parametrize(("schemas", "are_chained"), [(101, True), (1001, False)])
def test_too_many_schemas_behind_one_are_refused(schemas: int, are_chained: bool) -> None:
    state = RegistryState()
    references = [SchemaReference(f"R{number}", f"s{number}", 1) for number in range(schemas)]
    for number, reference in enumerate(references):
        before = references[number - 1 : number] if are_chained else []
        put(state, reference.subject, record(name=reference.name), *before)
    allowed, refused = (
        (references[-2:-1], references[-1:]) if are_chained else (references[1:], references)
    )
    assert len(dependencies(state, "x", allowed)) == schemas - 1
    with pytest.raises(RegistryError) as raised:
        dependencies(state, "x", refused)
    assert raised.value.code == 42209


@pytest.mark.parametrize("levels", [50_000])
def test_a_schema_that_is_nested_too_deep_is_refused(levels: int) -> None:
    text = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    answer = Rest()("POST /subjects/s/versions", {"schema": text})
    assert (answer.status, answer.body["error_code"]) in ((422, 42201), (422, 42209))
