"""What each request asks the permission for, and what users without it see."""

from collections.abc import Collection

import pytest
from starlette.requests import Request

from tests.registry.rest import Rest, record, refused
from wirekafka.registry.access import RegistryOperation
from wirekafka.registry.errors import RegistryError

A = record(name="A")
DENIED = refused(403, 40301, "User is denied operation")


class Recording:
    """Allows the operations of some subjects, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.denied: set[str | None] = set()

    async def authorize(
        self, request: Request, operation: RegistryOperation, subject: str | None
    ) -> None:
        assert request.url.path
        self.asked.append((operation.value, subject))
        if subject in self.denied:
            raise RegistryError(403, 40301, "User is denied operation")

    async def readable(self, request: Request, subjects: Collection[str]) -> Collection[str]:
        return [each for each in subjects if each not in self.denied]


@pytest.fixture
def access() -> Recording:
    return Recording()


@pytest.fixture
def rest(access: Recording) -> Rest:
    return Rest(access=access)


@pytest.mark.parametrize(
    ("line", "body", "asked"),
    [
        ("POST /subjects/s/versions", {"schema": A}, ("SUBJECT_WRITE", "s")),
        ("POST /subjects/:.c:s/versions", {"schema": A}, ("SUBJECT_WRITE", "s")),
        ("POST /subjects/s", {"schema": A}, ("SUBJECT_READ", "s")),
        ("GET /subjects/s/versions", None, ("SUBJECT_READ", "s")),
        ("GET /subjects/s/versions/latest", None, ("SUBJECT_READ", "s")),
        ("GET /subjects/s/versions/1/schema", None, ("SUBJECT_READ", "s")),
        ("GET /subjects/s/versions/1/referencedby", None, ("SUBJECT_READ", "s")),
        ("GET /subjects/s/metadata", None, ("SUBJECT_READ", "s")),
        ("POST /compatibility/subjects/s/versions", {"schema": A}, ("SUBJECT_READ", "s")),
        ("POST /compatibility/subjects/s/versions/1", {"schema": A}, ("SUBJECT_READ", "s")),
        ("DELETE /subjects/s", None, ("SUBJECT_DELETE", "s")),
        ("DELETE /subjects/s/versions/1", None, ("SUBJECT_DELETE", "s")),
        ("GET /schemas/ids/1", None, ("SCHEMA_READ", "s")),
        ("GET /schemas/ids/1/schema", None, ("SCHEMA_READ", "s")),
        ("GET /config/s", None, ("SUBJECT_COMPATIBILITY_READ", "s")),
        ("PUT /config/s", {}, ("SUBJECT_COMPATIBILITY_WRITE", "s")),
        ("DELETE /config/s", None, ("SUBJECT_COMPATIBILITY_WRITE", "s")),
        ("GET /mode/s", None, ("SUBJECT_COMPATIBILITY_READ", "s")),
        ("PUT /mode/s", {"mode": "READONLY"}, ("SUBJECT_COMPATIBILITY_WRITE", "s")),
        ("DELETE /mode/s", None, ("SUBJECT_COMPATIBILITY_WRITE", "s")),
        ("GET /config", None, ("GLOBAL_COMPATIBILITY_READ", None)),
        ("PUT /config", {}, ("GLOBAL_COMPATIBILITY_WRITE", None)),
        ("DELETE /config", None, ("GLOBAL_COMPATIBILITY_WRITE", None)),
        ("GET /mode", None, ("GLOBAL_COMPATIBILITY_READ", None)),
        ("PUT /mode", {"mode": "READONLY"}, ("GLOBAL_COMPATIBILITY_WRITE", None)),
        ("DELETE /mode", None, ("GLOBAL_COMPATIBILITY_WRITE", None)),
        ("GET /config/:.:", None, ("GLOBAL_COMPATIBILITY_READ", None)),
        ("PUT /config/:.:", {}, ("GLOBAL_COMPATIBILITY_WRITE", None)),
        ("GET /subjects", None, ("GLOBAL_SUBJECTS_READ", None)),
        ("GET /schemas", None, ("GLOBAL_SUBJECTS_READ", None)),
        ("GET /contexts", None, ("GLOBAL_SUBJECTS_READ", None)),
        ("DELETE /contexts/.c", None, ("SUBJECT_DELETE", "")),
    ],
)
def test_a_request_asks_for_one_permission(
    rest: Rest, access: Recording, line: str, body: object, asked: tuple[str, str | None]
) -> None:
    rest.register("s", A)
    access.asked.clear()
    access.denied.add(asked[1])
    before = rest.written()
    assert rest(line, body) == DENIED
    assert access.asked == [asked]
    assert rest.written() == before


def test_lists_have_only_what_the_user_may_read(rest: Rest, access: Recording) -> None:
    rest.register("open", A)
    rest.register("secret", A)
    access.denied.add("secret")
    assert rest("GET /subjects").body == ["open"]
    assert [each["subject"] for each in rest("GET /schemas").body] == ["open"]
    assert rest("GET /schemas/ids/1/subjects").body == ["open"]
    assert rest("GET /schemas/ids/1/versions").body == [{"subject": "open", "version": 1}]
    assert rest("GET /schemas/ids/1").status == 200
    access.denied.add("open")
    assert rest("GET /schemas/ids/1") == DENIED
    guid = "x"
    assert rest(f"GET /schemas/guids/{guid}").body["error_code"] == 40403


def test_a_reference_is_read_with_the_users_permission(rest: Rest, access: Recording) -> None:
    rest.register("secret", A)
    access.denied.add("secret")
    body = {
        "schema": record("a:A", name="B"),
        "references": [{"name": "A", "subject": "secret", "version": 1}],
    }
    assert rest("POST /subjects/s/versions", body) == DENIED
    assert rest("POST /compatibility/subjects/s/versions", body) == DENIED
    assert rest("POST /subjects/s", body) == DENIED


def test_an_alias_gives_no_access_to_its_subject(rest: Rest, access: Recording) -> None:
    rest.register("secret", A)
    rest("PUT /config/other", {"alias": "secret"})
    access.denied.add("secret")
    assert rest("GET /subjects/other/versions/1") == DENIED
