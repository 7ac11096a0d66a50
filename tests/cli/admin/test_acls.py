"""`wirekafka acls`."""

import pytest

from tests.cli.admin.conftest import RunJson, assert_refused, table
from tests.cli.conftest import Run, command_line
from wirekafka.cli.admin import acls as tested


@pytest.fixture(autouse=True)
def no_acls(run: Run) -> None:
    run("acls", "remove", "--all")


def row(operation: str, resource: str, name: str, **others: str) -> dict[str, str]:
    return {
        "principal": "User:alice",
        "permission": "Allow",
        "operation": operation,
        "resource": resource,
        "pattern": "literal",
        "name": name,
        "host": "*",
    } | others


def test_an_acl_is_added_listed_and_removed(run: Run, run_json: RunJson) -> None:
    words = ("--principal", "User:alice", "--topic", "orders", "--operation", "Read")
    expected = [row("Read", "Topic", "orders")]
    assert run_json("acls", "add", *words) == expected
    assert run_json("acls", "list") == expected
    assert table(run("acls", "list")) == [
        ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "NAME", "HOST"],
        ["User:alice", "Allow", "Read", "Topic", "literal", "orders", "*"],
    ]
    assert run_json("acls", "remove", *words) == expected
    assert run_json("acls", "list") == []


def test_that_nothing_matches_is_said(run: Run) -> None:
    for words in (("list",), ("list", "--topic", "x"), ("remove", "--principal", "nobody")):
        outcome = run("acls", *words)
        assert (outcome.status, outcome.out, outcome.err) == (0, "", "no ACL matches\n")


def test_a_producer_and_a_consumer_get_what_kafkas_tool_grants(run_json: RunJson) -> None:
    producer = run_json(
        *("acls", "add", "--principal", "alice", "--producer", "--topic", "orders"),
        *("--transactional-id", "t"),
    )
    assert [(each["resource"], each["operation"]) for each in producer] == [
        ("Topic", "Write"),
        ("Topic", "Create"),
        ("Topic", "Describe"),
        ("TransactionalId", "Write"),
        ("TransactionalId", "Describe"),
    ]
    consumer = run_json(
        *("acls", "add", "--principal", "alice", "--consumer", "--topic", "orders"),
        *("--group", "g"),
    )
    assert [(each["resource"], each["operation"]) for each in consumer] == [
        ("Topic", "Read"),
        ("Topic", "Describe"),
        ("Group", "Read"),
    ]
    removed = run_json(
        *("acls", "remove", "--principal", "alice", "--consumer", "--topic", "orders"),
        *("--group", "g"),
    )
    assert removed == consumer
    assert len(run_json("acls", "list")) == 4


def test_a_prefix_a_denial_and_a_host_are_kept_apart(run_json: RunJson) -> None:
    run_json(
        *("acls", "add", "--principal", "alice", "--topic", "ord", "--prefixed"),
        *("--operation", "alter-configs", "--deny", "--host", "10.0.0.0/8"),
    )
    wanted = row(
        "AlterConfigs", "Topic", "ord", pattern="prefixed", permission="Deny", host="10.0.0.0/8"
    )
    assert run_json("acls", "list") == [wanted]
    assert run_json("acls", "remove", "--topic", "ord") == []
    assert run_json("acls", "remove", "--topic", "ord", "--prefixed", "--host", "*") == []
    assert run_json("acls", "remove", "--topic", "ord", "--prefixed", "--dry-run") == [wanted]
    assert run_json("acls", "remove", "--deny") == [wanted]


def test_the_list_of_a_topic_has_all_acls_that_apply_to_it(run_json: RunJson) -> None:
    add = ("acls", "add", "--principal", "alice", "--operation", "Read")
    for words in (("orders",), ("ord", "--prefixed"), ("*",), ("other",)):
        run_json(*add, "--topic", *words)
    run_json(*add, "--group", "orders")
    found = run_json("acls", "list", "--topic", "orders")
    assert sorted(each["name"] for each in found) == ["*", "ord", "orders"]
    assert run_json("acls", "list", "--topic", "orders", "--principal", "bob") == []


def test_the_cluster_and_users_can_be_given_rights_on(run_json: RunJson) -> None:
    words = ("acls", "add", "--principal", "alice", "--cluster", "--operation", "Alter")
    assert run_json(*words) == [row("Alter", "Cluster", "kafka-cluster")]
    words = ("acls", "add", "--principal", "alice", "--user-resource", "bob")
    assert run_json(*words, "--operation", "CreateTokens") == [
        row("CreateTokens", "User", "User:bob")
    ]


def test_only_the_matched_acls_are_removed(
    run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ACL that another operator adds meanwhile stays."""
    add = ("acls", "add", "--principal", "alice", "--topic", "orders", "--operation")
    run_json(*add, "Read")
    delete = tested._delete

    def add_and_delete(*arguments):
        run_json(*add, "Write")
        return delete(*arguments)

    monkeypatch.setattr(tested, "_delete", add_and_delete)
    run("acls", "remove", "--topic", "orders")
    assert [each["operation"] for each in run_json("acls", "list")] == ["Write"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("add", "--topic", "t", "--operation", "Read"), "for whom? give --principal"),
        (("add", "--principal", "a", "--operation", "Read"), "on what? give --topic"),
        (("add", "--principal", "a", "--topic", "t"), "to do what? give --operation"),
        (("add", "--principal", "a", "--topic", "t", "--operation", "fly"), "no operation 'fly'"),
        (("add", "--principal", "a", "--topic", "t", "--operation", "any"), "no operation 'any'"),
        (("add", "--principal", "a", "--consumer", "--topic", "t"), "needs --topic and --group"),
        (("add", "--principal", "a", "--producer", "--group", "g"), "--producer is for --topic"),
        (
            ("add", "--principal", "a", "--producer", "--topic", "t", "--operation", "Read"),
            "--operation is not for --producer",
        ),
        (
            ("add", "--principal", "a", "--group", "g", "--operation", "Write"),
            "no effect on a Group",
        ),
        (("remove",), "which ACLs? give --all"),
        (("remove", "--all", "--topic", "t"), "which ACLs? give --all"),
    ],
)
def test_a_wrong_acl_is_refused_in_one_line(run: Run, words: tuple[str, ...], reason: str) -> None:
    assert_refused(run("acls", *words), reason)


def test_brokers_without_an_authorizer_are_reported(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: object
) -> None:
    run = command_line(bootstrap, monkeypatch, capfdbinary)
    assert_refused(
        run("acls", "list"), "the brokers have no authorizer: everybody may do everything"
    )
