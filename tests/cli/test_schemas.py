"""`consume --decode`, `produce --schema` and `wirekafka schemas`, with a small registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.registry.fake_registry import FakeRegistry, fake_registry
from tests.registry.plain_schemas import use_plain_schemas
from wirekafka import Broker
from wirekafka.testing import Allow


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    use_plain_schemas(monkeypatch)
    with fake_registry() as registry:
        monkeypatch.setenv("WIREKAFKA_SCHEMA_REGISTRY", registry.url)
        yield registry


@pytest.fixture
def order(tmp_path: Path) -> str:
    """The path of a schema."""
    path = tmp_path / "order.avsc"
    path.write_text("Order")
    return str(path)


def consume(run: Run, topic: str, *words: str) -> str:
    outcome = run("consume", topic, "-f", "beginning", "-e", "--decode", *words)
    assert (outcome.status, outcome.err) == (0, "")
    return outcome.out


def test_values_are_encoded_by_a_files_schema_and_decoded_again(run, topic, fake, order):
    outcome = run("produce", topic, "--schema", order, given='{"a": 1}\n{"a": "ü"}\n')
    assert (outcome.status, outcome.err) == (0, f"2 records to {topic}\n")
    assert run("schemas", "list").out == f"{topic}-value\n"
    assert consume(run, topic) == '{"a": 1}\n{"a": "ü"}\n'
    assert consume(run, topic, "--format", "%o: %v%k;") == '0: {"a": 1};1: {"a": "ü"};'
    first = json.loads(consume(run, topic, "--json").splitlines()[0])
    assert first["value"] == {"a": 1}
    assert first["value_schema"] == {"id": 1, "type": "AVRO", "name": "Order"}
    assert (first["key"], "key_schema" in first, "value_base64" in first) == (None, False, False)
    undecoded = run("consume", topic, "-f", "beginning", "-e", "--json")
    assert '"value": "\\u0000\\u0000\\u0000\\u0000\\u0001{' in undecoded.out


def test_keys_and_values_are_encoded_by_the_latest_schemas_of_subjects(run, topic, fake, order):
    assert run("schemas", "register", "keys", order).out == "1\n"
    newer = Path(order).with_name("newer.avsc")
    newer.write_text("Newer")
    assert run("schemas", "register", "values", order).out == "1\n"
    assert run("schemas", "register", "values", str(newer)).out == "2\n"
    words = ("--schema", "values", "--key-schema", "keys", "-K", "\\t", "-Z", "NULL")
    outcome = run("produce", topic, *words, "-p", "0", given='{"k": 1}\t{"v": 2}\n{"k": 1}\tNULL\n')
    assert outcome.status == 0, outcome.err
    line = {"key": {"k": 2}, "value": {"v": 3}}
    words = ("--schema", "values", "--key-schema", "keys", "--json-input", "-p", "0")
    assert run("produce", topic, *words, given=json.dumps(line) + "\n").status == 0
    assert consume(run, topic, "--format", "%k %v\\n") == (
        '{"k": 1} {"v": 2}\n{"k": 1} \n{"k": 2} {"v": 3}\n'
    )
    records = [json.loads(line) for line in consume(run, topic, "--json").splitlines()]
    assert [each["key_schema"]["id"] for each in records] == [1, 1, 1]
    assert [each["value"] for each in records] == [{"v": 2}, None, {"v": 3}]
    assert records[0]["value_schema"]["name"] == "Newer"


def test_a_line_that_does_not_fit_is_reported_by_its_number(run, topic, fake, order):
    words = ("produce", topic, "--schema", order, "--key-schema", order)
    for extra, given, message in (
        (["-K", ":"], "{}:{}\n{}:5\n", "line 2: value: it does not fit schema 1: 5 is no object"),
        (["-K", ":"], "key:{}\n", "line 1: key: not JSON: Expecting value: line 1 column 1"),
        (["--json-input"], '{"key": 7}\n', "line 1: key: it does not fit schema 1: 7 is no"),
        ([], "{}\n", "--key-schema: only lines of --key-separator or --json-input have keys"),
    ):
        outcome = run(*words, *extra, given=given)
        assert (outcome.status, outcome.out) == (1, "")
        assert outcome.err.startswith(f"wirekafka: {message}")
        assert outcome.err.count("\n") == 1


def test_records_that_do_not_decode_are_shown_as_they_are_with_one_note(run, topic, fake, order):
    assert run("schemas", "register", "a", order).status == 0
    run("produce", topic, "-p", "0", "-K", ":", given="key:plain\nkey:more\n")
    known, unknown = "\0\0\0\0\1", "\0\0\0\0\5"
    run("produce", topic, "-p", "0", given=f"{unknown}x\n{unknown}y\n{known}{{}}\n{known}z\n")
    outcome = run("consume", topic, "-f", "beginning", "-e", "--decode")
    assert outcome.status == 0
    assert outcome.out == f"plain\nmore\n{unknown}x\n{unknown}y\n{{}}\n{known}z\n"
    shown = f"wirekafka: {topic}-0, offset %s: the value is shown as it is: %s"
    assert outcome.err.splitlines() == [
        shown % (0, "it names no schema"),
        shown % (2, "the registry has no schema with id 5"),
        shown % (5, "no object"),
    ]


def test_the_registry_is_named_by_option_variable_or_properties(
    run, topic, fake, order, tmp_path, monkeypatch
):
    run("produce", topic, "--schema", order, given="{}\n")
    properties = tmp_path / "client.properties"
    properties.write_text(f"schema.registry.url={fake.url}\n")
    monkeypatch.delenv("WIREKAFKA_SCHEMA_REGISTRY")
    assert consume(run, topic, "--command-config", str(properties)) == "{}\n"
    assert consume(run, topic, "--schema-registry", fake.url) == "{}\n"
    outcome = run("consume", topic, "-e", "--decode")
    assert (outcome.status, outcome.err) == (
        1,
        "wirekafka: no schema registry: give --schema-registry URL, set WIREKAFKA_SCHEMA_REGISTRY,"
        " or schema.registry.url in the file of --command-config\n",
    )
    assert run("consume", topic, "-e").status == 0


def test_the_end_of_a_files_name_or_an_option_is_its_format(run, fake, tmp_path):
    for name, type_words, type_name in (
        ("a.proto", (), "PROTOBUF"),
        ("a.json", (), "JSON"),
        ("a.avsc", (), "AVRO"),
        ("b.json", ("--schema-type", "avro"), "AVRO"),
        ("b", ("--schema-type", "Protobuf"), "PROTOBUF"),
    ):
        (tmp_path / name).write_text(f"{name} {type_name}")
        outcome = run("schemas", "register", name, str(tmp_path / name), *type_words)
        assert outcome.status == 0, outcome.err
        shown = json.loads(run("schemas", "show", name, "--json").out)
        assert (shown["type"], shown["schema"]) == (type_name, f"{name} {type_name}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["register", "a", "FILE"], "FILE does not end in .avsc, .json or .proto: give --schema"),
        (["register", "a", "a.avsc"], "cannot read a.avsc: No such file or directory"),
        (["register", "a", "x", "--schema-type", "xml"], "no schema type 'xml': avro, json or"),
        (["check", "a", "ORDER", "-r", "b:1"], "bad --reference 'b:1': NAME=SUBJECT:VERSION"),
        (["show", "a", "--version", "-1"], "bad --version '-1': a number or latest"),
        (["show", "a"], "the schema registry refuses: Subject 'a' not found. (error code 40401)"),
        (["show", "a", "--schema-registry", "a:8081"], "'a:8081' is no URL of a schema registry"),
        (["list", "--schema-registry", "http://127.0.0.1:1"], "no response from http://127.0.0.1"),
    ],
)
def test_mistakes_are_one_line(run, fake, order, words, message):
    outcome = run("schemas", *(order if word == "ORDER" else word for word in words))
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith(f"wirekafka: {message}")
    assert outcome.err.count("\n") == 1


def test_versions_are_listed_shown_and_deleted(run, fake, order):
    run("schemas", "register", "orders-value", order)
    Path(order).write_text('New\n{\n  "a": "\x1b"\n}')
    words = ("-r", "common.proto=common:3", "-r", "http://a:b/=x:y:1")
    registered = run("schemas", "register", "orders-value", order, *words, "--json")
    assert json.loads(registered.out) == {"subject": "orders-value", "id": 2}
    assert fake.seen[-1].body["references"] == [
        {"name": "common.proto", "subject": "common", "version": 3},
        {"name": "http://a:b/", "subject": "x:y", "version": 1},
    ]
    table = run("schemas", "show", "orders-value", "--version", "all").out
    assert [line.split() for line in table.splitlines()] == [
        ["VERSION", "ID", "TYPE", "REFERENCES"],
        ["1", "1", "AVRO", "0"],
        ["2", "2", "AVRO", "2"],
    ]
    assert run("schemas", "show", "orders-value").out == 'New\n{\n  "a": "\\u001b"\n}\n'
    assert run("schemas", "show", "orders-value", "-v", "1").out == "Order\n"
    deleted = run("schemas", "delete", "orders-value", "--version", "1")
    assert (deleted.status, deleted.err) == (0, "deleted orders-value: version 1\n")
    deleted = run("schemas", "delete", "orders-value", "--json")
    assert json.loads(deleted.out) == {"subject": "orders-value", "versions": [2]}
    assert run("schemas", "list", "--json").out == "[]\n"
    run("schemas", "delete", "orders-value", "--permanent")
    assert fake.seen[-1].query == {"permanent": "true"}


def test_an_incompatible_schema_is_exit_status_1_with_the_reasons(run, fake, order):
    good = run("schemas", "check", "orders-value", order)
    assert (good.status, good.err) == (0, "the schema is compatible with orders-value\n")
    fake.messages = ["first reason", "second reason"]
    bad = run("schemas", "check", "orders-value", order, "--version", "latest")
    assert (bad.status, bad.out, bad.err) == (1, "first reason\nsecond reason\n", "")
    assert fake.paths[-1] == "POST /compatibility/subjects/orders-value/versions/latest"
    bad = run("schemas", "check", "orders-value", order, "--json")
    assert bad.status == 1
    assert json.loads(bad.out) == {
        "subject": "orders-value",
        "is_compatible": False,
        "messages": ["first reason", "second reason"],
    }


def test_a_user_of_the_brokers_logs_in_to_their_registry(run, order, tmp_path, monkeypatch):
    use_plain_schemas(monkeypatch)
    acls = [Allow("alice", "all", topic="orders*")]
    with Broker(schema_registry=True, users={"alice": "secret"}, acls=acls) as broker:
        properties = {
            **broker.client_config("java", "alice"),
            "schema.registry.url": broker.schema_registry_url,
            "basic.auth.credentials.source": "SASL_INHERIT",
        }
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        words = ("-b", broker.bootstrap_servers, "--command-config", str(file))
        outcome = run("produce", "orders", "--schema", order, *words, given='{"id": 1}\n')
        assert outcome.status == 0, outcome.err
        assert consume(run, "orders", *words) == '{"id": 1}\n'
        refused = run("produce", "other", "--schema", order, *words, given='{"id": 1}\n')
        assert refused.status == 1
        assert "is denied" in refused.err or "not authorized" in refused.err, refused.err
        anonymous = run("schemas", "list", "--schema-registry", broker.schema_registry_url)
        assert anonymous.status == 1 and "error code 401" in anonymous.err
