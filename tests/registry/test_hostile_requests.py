"""Requests that no client sends: none of them is an error of the server, or breaks the registry."""

import json
import logging
import random
from typing import Any

import pytest

from tests.registry.rest import Rest, record
from tests.repetitions import repetitions
from wirekafka.registry.http.routes import ROUTES
from wirekafka.registry.writer import MemoryWriter

SEEDS = repetitions("WIREKAFKA_REGISTRY_SEEDS", usual=3, thorough=100)
NAMES = (
    "s", "t", ":.c:s", ":.c:", ":.:", ":*:", ":", "..", "%2F", "%00", "%F0%9F%98%80", "a%2Fb",
    "latest", "-1", "0", "1", "2147483648", "99999999999999999999", "x" * 300, "%ff", "%",
)  # fmt: skip
FIELDS = (
    "schema", "schemaType", "references", "metadata", "ruleSet", "id", "version", "compatibility",
    "compatibilityLevel", "normalize", "alias", "compatibilityGroup", "defaultMetadata",
    "overrideRuleSet", "mode", "unknown",
)  # fmt: skip
QUERIES = (
    "", "?deleted=true", "?permanent=true", "?normalize=true", "?verbose=true", "?force=true",
    "?offset=-5&limit=2", "?offset=x", "?limit=99999999999999999999", "?subject=:.c:",
    "?subject=s", "?subjectPrefix=:.c", "?subjectPrefix=%00", "?format=serialized",
    "?format=resolved", "?defaultToGlobal=true", "?latestOnly=true&ruleType=x", "?fetchMaxId=true",
    "?key=a&key=b&value=c", "?deletedOnly=true", "?&&=&%", "?deleted=true&deleted=false",
)  # fmt: skip
REFERENCE = {"name": "A", "subject": "s", "version": 1}
VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**40, 1.5, "", "s", "AVRO", "JSON", "PROTOBUF", "READONLY", "IMPORT",
    "READWRITE", "NONE", "FULL", record("a:int"), record("a:A"), '"int"', "{}", "true", "\x00é",
    'syntax = "proto3"; message M { int32 a = 1; }', [], {}, [[]], [None], [REFERENCE],
    {"properties": {"a": "b"}, "tags": {"x": ["y"]}}, {"properties": 5}, {"tags": {"x": "y"}},
    {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE"}]}, {"domainRules": {}},
    {"domainRules": [5]}, {"migrationRules": [{"name": "r", "params": {"p": []}}]},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_request_is_an_error_of_the_server(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(seed)
    with Rest().connected() as rest, caplog.at_level(logging.ERROR):
        rest.register("s", record("a:int"))
        for _ in range(300):
            line, body = any_request(chance)
            answer = rest(line, body)
            assert answer.status < 500 or answer.status == 501, (line, body, answer, caplog.text)
            if answer.status >= 400:
                assert {"error_code", "message"} == answer.body.keys(), (line, answer)
        subjects = rest("GET /subjects?deleted=true").body
        again = Rest(MemoryWriter(rest.writer.entries))
        assert again("GET /subjects?deleted=true").body == subjects
        assert "Skipped" not in caplog.text


def any_request(chance: random.Random) -> tuple[str, Any]:
    route = chance.choice(ROUTES)
    path = route.path
    while "{" in path:
        before, _, rest = path.partition("{")
        name = chance.choice(NAMES[:6] if chance.random() < 0.5 else NAMES)
        path = before + name + rest.partition("}")[2]
    prefix = "/contexts/" + chance.choice((".c", ":.c:", ".", "x")) if chance.random() < 0.2 else ""
    body = None
    if route.method in ("POST", "PUT"):
        body = {chance.choice(FIELDS): chance.choice(VALUES) for _ in range(chance.randrange(5))}
        if chance.random() < 0.7:
            body["schema"] = chance.choice(VALUES)
        if chance.random() < 0.1:
            body = chance.choice(VALUES)
    assert json.dumps(body)
    return f"{route.method} {prefix}{path}{chance.choice(QUERIES)}", body
