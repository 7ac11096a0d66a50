"""Configurations, modes, contexts and aliases, request by request."""

import json

import pytest

from tests.registry.rest import Answer, Rest, record, refused

A, B = record(name="A"), record("b:int", name="A")


@pytest.fixture
def rest() -> Rest:
    return Rest()


def test_a_subject_has_a_level_of_its_own_until_it_is_deleted(rest: Rest) -> None:
    assert rest("PUT /config", {"compatibility": "full"}) == Answer(200, {"compatibility": "FULL"})
    assert rest("PUT /config/s", {"compatibility": "NONE"}).body == {"compatibility": "NONE"}
    assert rest("GET /config/s").body == {"compatibilityLevel": "NONE"}
    assert rest("DELETE /config/s").body == {"compatibilityLevel": "NONE"}
    assert rest("DELETE /config/s") == refused(404, 40401, "Subject 's' not found.")
    assert rest("GET /config/s?defaultToGlobal=true").body == {"compatibilityLevel": "FULL"}
    assert rest("DELETE /config").body == {"compatibilityLevel": "FULL"}
    assert rest("GET /config").body == {"compatibilityLevel": "BACKWARD"}
    assert rest.written() == [
        ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
        (
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"subject":"s","compatibilityLevel":"NONE"}',
        ),
        ('{"keytype":"CONFIG","subject":"s","magic":0}', None),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', None),
    ]


def test_a_change_leaves_the_other_settings(rest: Rest) -> None:
    rest("PUT /config/s", {"compatibility": "FULL", "normalize": True})
    assert rest("PUT /config/s", {"compatibilityGroup": "g"}).body == {"compatibilityGroup": "g"}
    settings = {"normalize": True, "compatibilityLevel": "FULL", "compatibilityGroup": "g"}
    assert rest("GET /config/s").body == settings
    rest("PUT /config/s", {"normalize": None, "validateFields": False})
    assert "normalize" not in rest("GET /config/s").body


@pytest.mark.parametrize(
    ("line", "body", "expected"),
    [
        (
            "PUT /config",
            {"compatibility": "SIDEWAYS"},
            refused(
                422,
                42203,
                "Invalid compatibility level. Valid values are none, backward, forward, full, "
                "backward_transitive, forward_transitive, and full_transitive",
            ),
        ),
        (
            "PUT /mode",
            {"mode": "SLEEPING"},
            refused(422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT."),
        ),
        ("PUT /config", {"colour": 1}, refused(422, 422, "Unrecognized field: colour")),
        (
            "PUT /config",
            {"compatibilityPolicy": "CASUAL"},
            refused(422, 422, "Invalid compatibility policy. Valid values are strict and lenient"),
        ),
        (
            "PUT /config",
            {"validateFields": True},
            refused(422, 422, "This registry has validateFields False only"),
        ),
        ("PUT /config", {"normalize": 1}, refused(400, 400, "Invalid value of normalize")),
        (
            "GET /mode/no",
            None,
            refused(404, 40409, "Subject 'no' does not have subject-level mode configured"),
        ),
        ("DELETE /mode/no", None, refused(404, 40401, "Subject 'no' not found.")),
    ],
)
def test_settings_that_are_refused(rest: Rest, line: str, body: object, expected: Answer) -> None:
    assert rest(line, body) == expected


def test_the_lenient_policy_lets_optional_properties_of_json_come_and_go(rest: Rest) -> None:
    def json_schema(**properties: str) -> str:
        types = {name: {"type": each} for name, each in properties.items()}
        return json.dumps({"type": "object", "properties": types})

    def registered(subject: str, **properties: str) -> int:
        body = {"schema": json_schema(**properties), "schemaType": "JSON"}
        checked = rest(f"POST /compatibility/subjects/{subject}/versions", body).body
        status = rest(f"POST /subjects/{subject}/versions", body).status
        assert checked["is_compatible"] is (status == 200)
        return status

    for subject in ("strict", "lenient"):
        rest(f"PUT /config/{subject}", {"compatibility": "FULL_TRANSITIVE"})
        assert registered(subject, a="string") == 200
    assert rest("PUT /config/lenient", {"compatibilityPolicy": "lenient"}).body == {
        "compatibilityPolicy": "LENIENT"
    }
    assert registered("strict", a="string", b="string") == 409
    assert registered("lenient", a="string", b="string") == 200
    assert registered("lenient", b="string") == 200
    assert registered("lenient", b="integer") == 409
    rest("PUT /config/lenient", {"compatibilityPolicy": None})
    assert registered("lenient", b="string", c="string") == 409


def test_the_lenient_policy_changes_nothing_for_avro(rest: Rest) -> None:
    rest("PUT /config/s", {"compatibilityPolicy": "LENIENT"})
    rest.register("s", A)
    assert rest("POST /subjects/s/versions", {"schema": B}).status == 409


def test_a_subject_in_read_only_mode_is_not_written(rest: Rest) -> None:
    rest.register("r", A)
    assert rest("PUT /mode/r", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    expected = refused(422, 42205, "Subject r in context . is in read-only mode")
    assert rest("POST /subjects/r/versions", {"schema": A}) == expected
    assert rest("DELETE /subjects/r") == expected
    assert rest("DELETE /subjects/r/versions/1") == expected
    assert rest("PUT /config/r", {"compatibility": "NONE"}) == expected
    assert rest("POST /subjects/r", {"schema": A}).status == 200
    assert rest("DELETE /mode/r").body == {"mode": "READONLY"}
    assert rest.register("r", A) == 1


def test_an_override_makes_all_subjects_read_only(rest: Rest) -> None:
    rest("PUT /mode/s", {"mode": "READWRITE"})
    rest("PUT /mode", {"mode": "READONLY_OVERRIDE"})
    assert rest("POST /subjects/s/versions", {"schema": A}).body["error_code"] == 42205
    assert rest("DELETE /mode").body == {"mode": "READONLY_OVERRIDE"}
    assert rest.register("s", A) == 1


def test_ids_and_versions_are_imported_as_they_are(rest: Rest) -> None:
    path = "POST /subjects/i/versions"
    assert rest("PUT /mode/i", {"mode": "IMPORT"}).body == {"mode": "IMPORT"}
    imported = rest(path, {"schema": A, "id": 42, "version": 5})
    assert (imported.body["id"], imported.body["version"]) == (42, 5)
    assert rest(path, {"schema": A, "id": 42, "version": 5}).body == imported.body
    assert rest(path, {"schema": A, "id": 43}).body["version"] == 6
    assert rest(path, {"schema": B, "id": 42}) == refused(
        422, 42205, "Overwrite new schema with id 42 is not permitted."
    )
    assert rest(path, {"schema": A}) == refused(
        422, 42205, "Subject i in context . is not in read-write mode"
    )
    assert rest.written()[0] == (
        '{"keytype":"CLEAR_SUBJECT","subject":"i","magic":0}',
        '{"subject":"i"}',
    )
    rest("DELETE /mode/i")
    assert rest.register("other", B) == 44


def test_only_empty_subjects_are_imported_into_unless_forced(rest: Rest) -> None:
    rest.register("s", A)
    expected = refused(422, 42205, "Cannot import since found existing subjects")
    assert rest("PUT /mode/s", {"mode": "IMPORT"}) == expected
    assert rest("PUT /mode", {"mode": "IMPORT"}) == expected
    assert rest("PUT /mode/s?force=true", {"mode": "IMPORT"}).status == 200
    assert rest("GET /subjects/s/versions").body == [1]
    rest("DELETE /mode/s")
    rest("DELETE /subjects/s")
    assert rest("PUT /mode", {"mode": "IMPORT"}).status == 200
    assert rest("GET /subjects?deleted=true").body == []


def test_a_context_has_ids_settings_and_subjects_of_its_own(rest: Rest) -> None:
    rest.register("s", B)
    assert rest("POST /contexts/.c/subjects/s/versions", {"schema": A}).body["id"] == 1
    assert rest("GET /contexts").body == [".", ".c"]
    assert rest("GET /contexts/.c/subjects").body == [":.c:s"]
    assert rest("GET /contexts/.c/schemas/ids/1").body["schema"] == A
    assert rest("GET /schemas/ids/1?subject=:.c:").body["schema"] == A
    assert rest("GET /schemas/ids/1").body["schema"] == B
    assert rest("GET /subjects/:.:s/versions/1").body["subject"] == "s"
    rest("PUT /contexts/.c/config", {"compatibility": "NONE"})
    assert rest("GET /config/:.c:s?defaultToGlobal=true").body["compatibilityLevel"] == "NONE"
    assert rest("GET /config/s?defaultToGlobal=true").body["compatibilityLevel"] == "BACKWARD"
    assert rest("DELETE /contexts/.c") == refused(
        422, 42211, "The specified context '.c' is not empty."
    )
    rest("DELETE /subjects/:.c:s")
    rest("DELETE /subjects/:.c:s?permanent=true")
    assert rest("DELETE /contexts/.c").status == 204
    assert rest("GET /contexts").body == ["."]


def test_a_schema_is_found_by_subject_in_another_context(rest: Rest) -> None:
    rest.register(":.c:only", A)
    assert rest("GET /schemas/ids/1").status == 404
    assert rest("GET /schemas/ids/1?subject=only").body["schema"] == A


def test_a_guid_finds_the_schema_in_all_contexts(rest: Rest) -> None:
    rest.register("x", B)
    rest.register("s", A)
    rest.register(":.c:s", A)
    guid = rest("GET /schemas/ids/2").body["guid"]
    assert rest(f"GET /schemas/guids/{guid}").body["schema"] == A
    assert rest(f"GET /schemas/guids/{guid}/ids").body == [
        {"context": ".", "id": 2},
        {"context": ".c", "id": 1},
    ]


def test_an_alias_stands_for_its_subject(rest: Rest) -> None:
    rest.register("s", A)
    rest("PUT /config/other", {"alias": "s"})
    assert rest("GET /subjects/other/versions/latest").body["subject"] == "s"
    assert rest("GET /config/s?defaultToGlobal=true").body == {"compatibilityLevel": "BACKWARD"}


def test_metadata_and_rules_are_kept_merged_and_inherited(rest: Rest) -> None:
    rest(
        "PUT /config/s",
        {
            "defaultMetadata": {"properties": {"owner": "nobody", "team": "x"}},
            "overrideMetadata": {"properties": {"zone": "eu"}, "tags": {"**.ssn": ["PII"]}},
            "overrideRuleSet": {"domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL"}]},
        },
    )
    metadata = {"properties": {"owner": "me"}, "sensitive": ["b", "a"]}
    first = rest("POST /subjects/s/versions", {"schema": A, "metadata": metadata}).body
    assert first["metadata"] == {
        "tags": {"**.ssn": ["PII"]},
        "properties": {"owner": "me", "team": "x", "zone": "eu"},
        "sensitive": ["a", "b"],
    }
    assert first["ruleSet"] == {
        "domainRules": [{"name": "r", "kind": "CONDITION", "type": "CEL", "disabled": False}]
    }
    second = rest("POST /subjects/s/versions", {"schema": A}).body
    assert second == first
    third = rest("POST /subjects/s/versions", {"metadata": {"properties": {"owner": "you"}}}).body
    assert (third["version"], third["schema"], third["id"]) == (2, A, 2)
    assert rest("POST /subjects/s", {"schema": A}).body["version"] == 2
    found = rest("GET /subjects/s/metadata?key=owner&value=me").body
    assert found["version"] == 1
    assert rest("GET /subjects/s/metadata?key=owner&value=they").status == 404
    assert rest("GET /schemas?ruleType=CEL").body[0]["version"] == 1
    assert rest("GET /schemas?ruleType=other").body == []


def test_a_compatibility_group_is_compared_with_itself_only(rest: Rest) -> None:
    rest("PUT /config/s", {"compatibilityGroup": "major"})
    of_major = {"properties": {"major": "1"}}
    rest("POST /subjects/s/versions", {"schema": A, "metadata": of_major})
    assert rest("POST /subjects/s/versions", {"schema": B, "metadata": of_major}).status == 409
    other = {"properties": {"major": "2"}}
    assert rest("POST /subjects/s/versions", {"schema": B, "metadata": other}).body["version"] == 2
