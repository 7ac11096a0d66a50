"""The client of schema registries, against a small registry over HTTP."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.certificates import Authority
from tests.registry.fake_registry import FakeRegistry, Fault, fake_registry
from wirekafka.client.client import CliError, ConnectionFailure
from wirekafka.client.schema_registry import RegistryRefused, SchemaRegistry
from wirekafka.schemas.schema import Dependency, Format, SchemaError, SchemaReference

STRING = '{"type": "string"}'


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


@pytest.fixture
def registry(fake: FakeRegistry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(fake.url, timeout_s=5) as client:
        yield client


def test_a_schema_is_registered_and_found_by_id_guid_subject_and_version(fake, registry):
    id = registry.register("orders-value", STRING)
    assert registry.register("orders-value", STRING) == id
    by_id, by_version = registry.schema(id), registry.version("orders-value")
    by_guid = registry.schema_of_guid(fake.guid(id))
    assert {each.text for each in (by_id, by_version, by_guid)} == {STRING}
    assert (by_id.id, by_id.format) == (id, Format.AVRO)
    assert (by_version.subject, by_version.version) == ("orders-value", 1)
    assert registry.subjects() == ["orders-value"]
    assert registry.subjects("other") == []
    assert registry.versions("orders-value") == [1]
    assert registry.delete("orders-value", 1) == [1]
    with pytest.raises(RegistryRefused) as refused:
        registry.version("orders-value")
    assert (refused.value.status, refused.value.code) == (404, 40401)
    assert str(refused.value) == (
        "the schema registry refuses: Subject 'orders-value' not found. (error code 40401)"
    )


def test_names_of_subjects_are_quoted(fake, registry):
    name = "a/b ?%#ü-value"
    registry.register(name, STRING)
    assert registry.version(name).subject == name
    assert fake.paths[-1] == "GET /subjects/a%2Fb%20%3F%25%23%C3%BC-value/versions/latest"


def test_a_known_id_is_asked_for_once_and_an_unknown_one_again_after_seconds(fake):
    now = 100.0
    registry = SchemaRegistry(fake.url, now_s=lambda: now)
    registry.register("a", STRING)
    for _ in range(3):
        assert registry.schema(1).text == STRING
        with pytest.raises(RegistryRefused):
            registry.schema(2)
    assert fake.paths.count("GET /schemas/ids/1") == 1
    assert fake.paths.count("GET /schemas/ids/2") == 1
    SchemaRegistry(fake.url).register("a", '"int"')
    now += 6
    assert registry.schema(2).text == '"int"'


def test_an_id_is_known_at_once_where_it_is_registered(fake, registry):
    with pytest.raises(RegistryRefused):
        registry.schema(1)
    registry.register("a", STRING)
    assert registry.schema(1).text == STRING


def test_a_registry_that_is_gone_is_not_waited_for_with_every_record(fake):
    now = 100.0
    registry = SchemaRegistry(fake.url, now_s=lambda: now, timeout_s=0.2)
    fake.delay_s = 0.5
    for id in (1, 2, 3):
        with pytest.raises(ConnectionFailure):
            registry.schema(id)
    assert len(fake.seen) == 1
    fake.delay_s = 0
    registry.register("a", STRING)
    now += 3
    assert registry.schema(1).text == STRING


def test_schemas_are_kept_up_to_a_number_and_a_size(fake, registry):
    large = json.dumps({"type": "string", "doc": "x" * (6 << 20)})
    for name in "abc":
        registry.register(name, large.replace("xxx", name * 3, 1))
    registry.register("d", STRING)
    for id in (1, 2, 3, 4, 1):
        registry.schema(id)
    assert fake.paths.count("GET /schemas/ids/1") == 2
    assert registry.schema(4).text == STRING
    assert fake.paths.count("GET /schemas/ids/4") == 1


def test_references_are_resolved_the_innermost_first_and_each_once(fake, registry):
    registry.register("c", "C", Format.PROTOBUF)
    to_c = SchemaReference("c.proto", "c", 1)
    registry.register("b", "B", Format.PROTOBUF, [to_c])
    to_b = SchemaReference("b.proto", "b", 1)
    registry.register("a", "A", Format.PROTOBUF, [to_c, to_b])
    registry.delete("c")
    schema = registry.version("a")
    assert schema.references == (to_c, to_b)
    assert registry.dependencies(schema.references) == [
        Dependency("c.proto", "C"),
        Dependency("b.proto", "B"),
    ]
    assert fake.paths.count("GET /subjects/c/versions/1") == 1


def test_a_circle_of_references_and_too_deep_references_are_errors(fake, registry):
    registry.register("a", "A", Format.PROTOBUF, [SchemaReference("a.proto", "a", 1)])
    with pytest.raises(SchemaError, match="a refers to itself"):
        registry.dependencies([SchemaReference("x.proto", "a", 1)])
    for number in range(150):
        below = [SchemaReference(f"{number - 1}.proto", f"d{number - 1}", 1)] if number else []
        registry.register(f"d{number}", f"D{number}", Format.PROTOBUF, below)
    with pytest.raises(SchemaError, match="100 one in another"):
        registry.dependencies([SchemaReference("d.proto", "d149", 1)])


def test_connections_are_kept_and_closed_ones_are_replaced(fake, registry):
    registry.subjects()
    registry.subjects()
    assert len({each.connection for each in fake.seen}) == 1
    fake.faults.append(Fault(200, b"[]", {"Connection": "close"}))
    registry.subjects()
    assert registry.subjects() == []
    assert len({each.connection for each in fake.seen}) == 2


def test_a_kept_connection_that_the_registry_has_closed_is_not_an_error(fake, registry):
    registry.subjects()
    # As a registry that restarts: the connection ends while it is idle.
    (connection,) = registry._endpoints[0]._idle
    connection.sock.shutdown(2)
    assert registry.subjects() == []


def test_threads_share_a_registry(fake, registry):
    registry.register("a", STRING)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(registry.version("a").text)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [STRING] * 8
    assert len(registry._endpoints[0]._idle) <= 4


def test_user_and_password_come_from_arguments_or_the_url_and_are_never_shown():
    with fake_registry(user="alice", password="p@ss/word") as fake:
        address = fake.url.removeprefix("http://")
        in_url = SchemaRegistry(f"http://alice:p%40ss%2Fword@{address}/")
        assert in_url.subjects() == []
        assert in_url.url == fake.url
        assert SchemaRegistry(fake.url, user="alice", password="p@ss/word").subjects() == []
        wrong = SchemaRegistry(f"http://alice:hidden@{address}")
        with pytest.raises(RegistryRefused, match="Unauthorized") as refused:
            wrong.subjects()
        assert refused.value.status == 401
        fake.delay_s = 1
        late = SchemaRegistry(f"http://alice:hidden@{address}", timeout_s=0.1)
        with pytest.raises(ConnectionFailure) as failure:
            late.subjects()
        assert "hidden" not in str(failure.value) + str(refused.value)


@pytest.mark.parametrize(
    "url", ["localhost:8081", "ftp://localhost", "http://", "http://a:b@c:d", "", "http://[x"]
)
def test_a_text_that_is_no_url_of_a_registry_is_refused_without_its_password(url):
    with pytest.raises(CliError) as refused:
        SchemaRegistry(url)
    assert "a:b" not in str(refused.value)


def test_redirects_are_followed_on_the_same_server_only(fake, registry):
    with fake_registry() as elsewhere:
        fake.faults.append(Fault(307, b"", {"Location": "/subjects?deleted=true"}))
        assert registry.subjects() == []
        assert fake.seen[-1].query == {"deleted": "true"}
        fake.faults.append(Fault(307, b"", {"Location": f"{elsewhere.url}/subjects"}))
        with pytest.raises(ConnectionFailure, match="redirects to another server"):
            registry.subjects()
        fake.faults.append(Fault(307, b"", {"Location": "/subjects"}, times=10))
        with pytest.raises(ConnectionFailure, match="redirects more than 3 times"):
            registry.subjects()
        assert elsewhere.seen == []


def test_the_next_instance_is_asked_if_one_is_gone(fake):
    with fake_registry() as gone:
        url = gone.url
    registry = SchemaRegistry(f"{url}, {fake.url}")
    assert registry.subjects() == []
    assert registry.register("a", STRING) == 1


def test_a_path_before_those_of_the_registry_is_kept(fake):
    registry = SchemaRegistry(f"{fake.url}/apis/ccompat/v7/")
    with pytest.raises(RegistryRefused):
        registry.subjects()
    assert fake.paths == ["GET /apis/ccompat/v7/subjects"]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (502, b"<html>Bad gateway</html>", "502 Bad Gateway (error code 502)"),
        (500, b'{"error_code": "x"}', "500 Internal Server Error (error code 500)"),
        (409, b'{"error_code": 409, "message": "no"}', "no (error code 409)"),
        (500, b"[1", "500 Internal Server Error (error code 500)"),
    ],
)
def test_refusals_have_the_registrys_code_and_text_or_the_status(
    fake, registry, status, body, message
):
    fake.faults.append(Fault(status, body))
    with pytest.raises(RegistryRefused) as refused:
        registry.subjects()
    assert refused.value.status == status
    assert str(refused.value) == f"the schema registry refuses: {message}"


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b"null", b'{"schema": 5}', b'{"schema": "x", "schemaType": "XML"}']
)
def test_a_response_that_is_no_schema_is_an_error(fake, registry, body):
    fake.faults.append(Fault(200, body))
    with pytest.raises(CliError, match="answers with no schema that is known"):
        registry.schema(1)


@pytest.mark.parametrize("body", [b"5.5", b"{}", b"null", b"[[]]", b'{"id": "x"}'])
@pytest.mark.parametrize(
    "ask",
    [
        lambda registry: registry.subjects(),
        lambda registry: registry.versions("a"),
        lambda registry: registry.delete("a"),
        lambda registry: registry.delete("a", 1),
        lambda registry: registry.register("a", STRING),
        lambda registry: registry.incompatibilities("a", STRING),
    ],
)
def test_an_answer_of_another_shape_is_an_error(fake, registry, ask, body):
    fake.faults.append(Fault(200, body))
    with pytest.raises(CliError, match="does not answer as a schema registry does"):
        ask(registry)


def test_a_server_that_is_no_registry_is_an_error(fake, registry):
    fake.faults.append(Fault(200, b"<html>"))
    with pytest.raises(ConnectionFailure, match="answers without JSON: <html>"):
        registry.subjects()


def test_tls_is_checked_against_the_file_of_an_authority(tmp_path: Path):
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("CN=registry", "127.0.0.1").pem())
    with fake_registry(tls=context) as fake:
        assert SchemaRegistry(fake.url, ca_file=Path(authority.file)).subjects() == []
        with pytest.raises(ConnectionFailure, match="certificate"):
            SchemaRegistry(fake.url).subjects()


def test_no_format_is_imported_before_a_schema_is_parsed():
    program = (
        "import sys, wirekafka.client.schema_registry;"
        "print([name for name in ('avro', 'fastavro', 'jsonschema', 'google.protobuf', 'httpx')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_incompatibilities_are_the_registrys_messages(fake, registry):
    assert registry.incompatibilities("a", STRING) == []
    fake.messages = ["TYPE_MISMATCH"]
    references = [SchemaReference("n", "s", 2)]
    found = registry.incompatibilities("a", "{}", Format.JSON, references, version=1)
    assert found == ["TYPE_MISMATCH"]
    assert fake.paths[-1] == "POST /compatibility/subjects/a/versions/1"
    assert fake.seen[-1].query == {"verbose": "true"}
    assert fake.seen[-1].body == {
        "schema": "{}",
        "schemaType": "JSON",
        "references": [{"name": "n", "subject": "s", "version": 2}],
    }


def test_ids_belong_to_the_context_of_a_subject(fake, registry):
    registry.register("a", STRING)
    registry.schema(1, ":.other:a")
    registry.schema(1)
    assert [each.query for each in fake.seen[1:]] == [{"subject": ":.other:a"}, {}]


def test_a_guid_that_is_unknown_is_refused(registry):
    with pytest.raises(RegistryRefused):
        registry.schema_of_guid(UUID(int=1))
