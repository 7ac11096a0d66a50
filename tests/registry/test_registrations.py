"""Registrations, look-ups and reads of versions, request by request."""

import re

import pytest

from tests.registry.rest import Answer, Rest, record, refused
from tests.test_layout import ROOT
from wirekafka.registry.http.routes import ROUTES

A, A_AND_B = record("a:int"), record("a:int", "b:int=1")
B_REQUIRED = record("a:int", "b:int")


@pytest.fixture
def rest() -> Rest:
    return Rest()


def test_a_registration_answers_id_version_guid_and_schema(rest: Rest) -> None:
    text = (
        '{"type":"record","name":"User","namespace":"ssup2.com","fields":[{"name":"id","type":'
        '"int"},{"name":"name","type":"string"},{"name":"email","type":"string"}]}'
    )
    assert rest("POST /subjects/user/versions", {"schema": text}) == Answer(
        200,
        {
            "id": 1,
            "version": 1,
            "guid": "e06655b8-8d49-9800-f924-ea691503f834",  # Confluent's registry gives it too.
            "schemaType": "AVRO",
            "schema": text,
        },
    )


def test_a_guid_is_the_one_that_confluents_registry_gives(rest: Rest) -> None:
    text = (
        '{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","title":"Metric"'
        ',"description":"Metric data schema for Kafka messages","properties":{"id":{"type":"integer'
        '","description":"Metric unique identifier","minimum":0},"type":{"type":"string","enum":["'
        'counter"],"description":"Type of metric"},"delta":{"type":["integer","null"],"description"'
        ':"Delta value for counter","default":null}},"required":["id","type"]}'
    )
    rest.register("metric-value", text, schemaType="JSON")
    guid = rest("GET /schemas/ids/1").body["guid"]
    assert guid == "eddc3552-27e7-705b-a3bf-cef9f24f6a6e"


def test_one_text_in_two_formats_has_two_ids(rest: Rest) -> None:
    text = '{"type":"string","avro.java.string":"String"}'
    assert rest.register("a", text) == 1
    assert rest.register("j", text, schemaType="JSON") == 2
    assert [rest.register("a2", text), rest.register("j2", text, schemaType="JSON")] == [1, 2]
    assert rest("GET /schemas/ids/1").body["schemaType"] == "AVRO"
    assert rest("GET /schemas/ids/2").body["schemaType"] == "JSON"


def test_a_schema_that_is_registered_again_keeps_id_and_version(rest: Rest) -> None:
    assert rest.register("s", A) == 1
    assert rest.register("s", A_AND_B) == 2
    again = rest("POST /subjects/s/versions", {"schema": A})
    assert (again.body["id"], again.body["version"]) == (1, 1)
    assert len(rest.writer.entries) == 2


def test_a_schema_has_one_id_in_all_subjects_of_a_context(rest: Rest) -> None:
    assert [rest.register(each, A) for each in ("s", "t", "u")] == [1, 1, 1]
    assert rest.register("s", A_AND_B) == 2
    assert rest.register(":.other:s", A_AND_B) == 1
    assert rest("GET /schemas/ids/1/versions").body == [
        {"subject": "s", "version": 1},
        {"subject": "t", "version": 1},
        {"subject": "u", "version": 1},
    ]
    assert rest("GET /schemas/ids/1/subjects").body == ["s", "t", "u"]


def test_texts_that_differ_in_spaces_are_one_schema(rest: Rest) -> None:
    spaced = A.replace(",", " ,\n ")
    assert rest.register("s", spaced) == rest.register("s", A) == 1
    assert rest("GET /subjects/s/versions/1").body["schema"] == A
    assert rest("POST /subjects/s", {"schema": spaced}).body["version"] == 1


@pytest.mark.parametrize("where", ["query", "configuration"])
def test_normalized_schemas_are_one_schema(rest: Rest, where: str) -> None:
    reordered = '{"fields":[{"type":"int","name":"a"}],"name":"R","type":"record"}'
    query = "?normalize=true" if where == "query" else ""
    if where == "configuration":
        rest("PUT /config/s", {"normalize": True})
    first = rest(f"POST /subjects/s/versions{query}", {"schema": reordered})
    second = rest(f"POST /subjects/s/versions{query}", {"schema": A})
    assert first.body == second.body
    assert rest(f"POST /subjects/s{query}", {"schema": reordered}).body["version"] == 1


def test_a_version_has_all_that_was_registered(rest: Rest) -> None:
    rest.register("s", A)
    answer = rest("GET /subjects/s/versions/latest")
    timestamp_ms = answer.body.pop("ts")
    assert isinstance(timestamp_ms, int)
    assert list(answer.body.items()) == [
        ("subject", "s"),
        ("version", 1),
        ("id", 1),
        ("guid", rest("GET /schemas/ids/1").body["guid"]),
        ("schemaType", "AVRO"),
        ("schema", A),
        ("deleted", False),
    ]
    assert rest("GET /subjects/s/versions/1/schema").body == rest("GET /schemas/ids/1/schema").body


def test_a_subject_may_have_slashes_and_spaces(rest: Rest) -> None:
    rest.register("a%2Fb%20c", A)
    assert rest("GET /subjects").body == ["a/b c"]
    assert rest("GET /subjects/a%2Fb%20c/versions").body == [1]
    assert rest("GET /subjects/a/b/versions").status == 404


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /subjects/no/versions", refused(404, 40401, "Subject 'no' not found.")),
        ("GET /subjects/no/versions/1", refused(404, 40401, "Subject 'no' not found.")),
        ("GET /subjects/s/versions/7", refused(404, 40402, "Version 7 not found.")),
        (
            "GET /subjects/s/versions/x",
            refused(
                422,
                42202,
                "The specified version 'x' is not a valid version id. "
                'Allowed values are between [1, 2^31-1] and the string "latest"',
            ),
        ),
        ("GET /schemas/ids/9", refused(404, 40403, "Schema 9 not found")),
        ("GET /schemas/ids/9/versions", refused(404, 40403, "Schema not found")),
        ("GET /schemas/guids/x", refused(404, 40403, "Schema x not found")),
        ("GET /nothing", refused(404, 404, "HTTP 404 Not Found")),
        ("GET /schemas/ids/abc", refused(404, 404, "HTTP 404 Not Found")),
        ("PATCH /subjects", refused(405, 405, "HTTP 405 Method Not Allowed")),
        ("DELETE /subjects/no", refused(404, 40401, "Subject 'no' not found.")),
        ("GET /config/s", None),
        ("GET /schemas/types", Answer(200, ["JSON", "PROTOBUF", "AVRO"])),
        ("GET /", Answer(200, {})),
        ("GET /contexts", Answer(200, ["."])),
        ("GET /config", Answer(200, {"compatibilityLevel": "BACKWARD"})),
        ("GET /mode", Answer(200, {"mode": "READWRITE"})),
    ],
)
def test_requests_have_the_answers_of_confluent(
    rest: Rest, request_line: str, expected: Answer | None
) -> None:
    rest.register("s", A)
    if expected is None:
        message = "Subject 's' does not have subject-level compatibility configured"
        expected = refused(404, 40408, message)
    assert rest(request_line) == expected


def test_a_look_up_finds_the_version_or_says_what_is_unknown(rest: Rest) -> None:
    assert rest("POST /subjects/s", {"schema": A}) == refused(404, 40401, "Subject 's' not found.")
    rest.register("s", A)
    assert rest("POST /subjects/s", {"schema": A}).body["version"] == 1
    assert rest("POST /subjects/s", {"schema": B_REQUIRED}) == refused(
        404, 40403, "Schema not found"
    )


def test_an_incompatible_schema_is_refused_with_details(rest: Rest) -> None:
    rest.register("s", A)
    answer = rest("POST /subjects/s/versions", {"schema": B_REQUIRED})
    assert answer == refused(
        409,
        409,
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
        "'/fields/1' in the new schema has no default value and is missing in the old schema', "
        f"additionalInfo:'b'}}, {{oldSchemaVersion: 1}}, {{oldSchema: '{A}'}}, "
        "{validateFields: 'false', compatibility: 'BACKWARD'}]",
    )


def test_a_compatibility_check_answers_messages_if_it_is_verbose(rest: Rest) -> None:
    path = "POST /compatibility/subjects/s/versions"
    assert rest(path, {"schema": A}).body == {"is_compatible": True}
    rest.register("s", A)
    rest.register("s", A_AND_B)
    assert rest(path, {"schema": B_REQUIRED}).body == {"is_compatible": True}
    rest("PUT /config", {"compatibility": "BACKWARD_TRANSITIVE"})
    assert rest(path, {"schema": B_REQUIRED}).body == {"is_compatible": False}
    verbose = rest(f"{path}/1?verbose=true", {"schema": B_REQUIRED}).body
    assert verbose["is_compatible"] is False
    assert verbose["messages"][1] == "{oldSchemaVersion: 1}"
    assert rest(f"{path}/2?verbose=true", {"schema": B_REQUIRED}).body == {
        "is_compatible": True,
        "messages": [],
    }
    invalid = rest(f"{path}?verbose=true", {"schema": "{"}).body
    assert invalid["is_compatible"] is False
    assert invalid["messages"][0].startswith("Invalid schema {subject=s,")
    assert rest(path, {"schema": "{"}).body["error_code"] == 42201
    assert rest(f"{path}/3", {"schema": A}) == refused(404, 40402, "Version 3 not found.")


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"schema": "{"}, 422, 42201, "Invalid schema {subject=s,version=0,id=-1,schemaType=AVRO"),
        ({"schema": A, "schemaType": "XML"}, 422, 42201, "Invalid schema type XML"),
        ({}, 422, 42201, "Empty schema"),
        ({"schema": A, "unknown": 1}, 422, 422, "Unrecognized field: unknown"),
        ({"schema": 1}, 400, 400, "schema is no text"),
        ([A], 400, 400, "The body is no JSON object"),
        ({"schema": '"' + "x" * (1 << 20) + '"'}, 422, 42209, "Write failed because schema is"),
        (
            {"schema": A, "references": [{"name": "N", "subject": "no", "version": 1}]},
            422,
            42201,
            'details: No schema reference found for subject "no" and version 1',
        ),
        (
            {"schema": A, "references": [{"name": "N", "subject": "s", "version": 1}] * 1001},
            422,
            42209,
            "too many references",
        ),
        ({"schema": A, "id": 5}, 422, 42205, "Subject s in context . is not in import mode"),
        ({"schema": A, "version": 5}, 422, 42201, "Version is not one more than previous version"),
        ({"schema": A, "ruleSet": {"domainRules": [{}]}}, 422, 42210, "Missing rule name"),
    ],
)
def test_bodies_that_cannot_be_registered(
    rest: Rest, body: object, status: int, code: int, message: str
) -> None:
    answer = rest("POST /subjects/s/versions", body)
    assert (answer.status, answer.body["error_code"]) == (status, code), answer
    assert message in answer.body["message"]
    assert rest.written() == []


def test_unknown_fields_are_skipped_if_the_client_expects_it(rest: Rest) -> None:
    body = {"schema": A, "unknown": 1}
    headers = {"Confluent_Accept_Unknown_Properties": "true"}
    assert rest("POST /subjects/s/versions", body, **headers).status == 200


@pytest.mark.parametrize(
    ("subject", "shown"),
    [("__GLOBAL", "__GLOBAL"), ("%20", " "), ("a%7F", "a\x7f"), (":.c:", ":.c:")],
)
def test_some_names_cannot_be_subjects(rest: Rest, subject: str, shown: str) -> None:
    answer = rest(f"POST /subjects/{subject}/versions", {"schema": A})
    assert answer == refused(422, 42208, f"The specified subject '{shown}' is not a valid.")


def test_bodies_without_json_are_refused(rest: Rest) -> None:
    path = "/subjects/s/versions"
    for content in (b"{", b'{"schema": "\xff"}', b'{"schema": "\\ud800"}', b"[" * 100_000):
        answer = rest.client.post(
            path, content=content, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400), answer.text
    assert rest.client.post(path, content=b"").status_code == 422
    large = rest.client.post(path, content=b" " * (5 << 20))
    assert large.status_code == 413


def test_content_types_are_negotiated(rest: Rest) -> None:
    assert rest("GET /subjects", Accept="application/json").content_type == "application/json"
    assert rest("GET /subjects", Accept="application/json, */*").content_type == "application/json"
    other = "application/vnd.schemaregistry+json"
    assert rest("GET /subjects", Accept=f"{other}, application/json;q=0.5").content_type == other
    assert rest("GET /subjects", Accept="text/html") == refused(406, 406, "HTTP 406 Not Acceptable")
    answer = rest("POST /subjects/s/versions", {"schema": A}, Content_Type="text/plain")
    assert answer == refused(415, 415, "HTTP 415 Unsupported Media Type")
    assert rest.client.head("/subjects").status_code == 200
    assert rest.client.options("/subjects/s").headers["allow"] == "DELETE,OPTIONS,POST"


def test_exporters_are_refused_clearly(rest: Rest) -> None:
    answer = rest("POST /exporters", {"name": "x"})
    assert answer.status == 501
    assert "no exporters" in answer.body["message"]


def test_lists_have_pages_and_prefixes(rest: Rest) -> None:
    for subject in ("a1", "a2", "b1", ":.c:a3"):
        rest.register(subject, A)
    rest.register("a1", A_AND_B)
    assert rest("GET /subjects").body == [":.c:a3", "a1", "a2", "b1"]
    assert rest("GET /subjects?subjectPrefix=").body == ["a1", "a2", "b1"]
    assert rest("GET /subjects?subjectPrefix=a&offset=1&limit=1").body == ["a2"]
    assert rest("GET /subjects?subjectPrefix=:.c:").body == [":.c:a3"]
    assert rest("GET /subjects?subjectPrefix=:*:a").body == [":.c:a3", "a1", "a2"]
    found = rest("GET /schemas").body
    assert [(each["subject"], each["version"]) for each in found] == [
        ("a1", 1),
        ("a1", 2),
        ("a2", 1),
        ("b1", 1),
    ]
    latest = rest("GET /schemas?subjectPrefix=a&latestOnly=true").body
    assert [(each["subject"], each["version"]) for each in latest] == [("a1", 2), ("a2", 1)]
    assert [each["subject"] for each in rest("GET /schemas?offset=1&limit=2").body] == ["a1", "a2"]


def test_a_schema_is_answered_with_all_that_it_refers_to_if_wanted(rest: Rest) -> None:
    rest.register("a", record("n:int", name="A"))
    holder = record("a:A", name="H")
    named = [{"name": "A", "subject": "a", "version": 1}]
    rest.register("h", holder, references=named)
    whole = holder.replace('"type":"A"', f'"type":{record("n:int", name="A")}')
    assert rest("GET /schemas/ids/2?format=resolved").body["schema"] == whole
    assert rest("GET /subjects/h/versions/1?format=resolved").body["schema"] == whole
    assert rest("GET /schemas/ids/2?format=other").body["schema"] == holder


def test_the_page_of_the_api_has_every_path() -> None:
    page = (ROOT / "docs/reference/schema-registry.md").read_text()
    described = set(re.findall(r"`((?:GET|PUT|POST|DELETE) /[^`]*)`", page))
    assert described == {
        f"{each.method} {each.path}" for each in ROUTES if "exporters" not in each.path
    }
