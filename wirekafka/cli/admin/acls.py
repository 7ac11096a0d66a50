"""`wirekafka acls`: list, add and remove ACLs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, show_rows
from wirekafka.client.admin.acls import EVERY_ACL, create_acls, delete_acls, filter_of, list_acls
from wirekafka.client.client import Client, CliError
from wirekafka.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

_COLUMNS = ("principal", "permission", "operation", "resource", "pattern", "name", "host")
_WRITES = (Operation.WRITE, Operation.DESCRIBE)
_PRODUCES = (*_WRITES, Operation.CREATE)
_CONSUMES = (Operation.READ, Operation.DESCRIBE)
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_CHECKED: Mapping[ResourceType, Collection[Operation]] = {
    ResourceType.TOPIC: {
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE),
        *(Operation.ALTER, Operation.DESCRIBE, *_CONFIGS),
    },
    ResourceType.GROUP: {Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS},
    ResourceType.CLUSTER: {
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.IDEMPOTENT_WRITE, *_CONFIGS),
    },
    ResourceType.TRANSACTIONAL_ID: {*_WRITES, Operation.TWO_PHASE_COMMIT},
    ResourceType.DELEGATION_TOKEN: {Operation.DESCRIBE},
    ResourceType.USER: {Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS},
}
"""The operations that brokers check for each type of resource: ACLs on others have no effect."""
_NAMED_TYPES = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
"""The types of the resources that have names, in the order of their options."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Topic = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; * is all.")
]
Group = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="A group; * is all.")
]
TransactionalId = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id; * is all."),
]
Token = Annotated[
    list[str] | None,
    typer.Option("--delegation-token", metavar="ID", help="A delegation token; * is all."),
]
TokenOwner = Annotated[
    list[str] | None,
    typer.Option(
        "--user-resource", metavar="NAME", help="A user, whose tokens others may create; * is all."
    ),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--principal", metavar="NAME", help="A user, as alice or User:alice; User:* is all."
    ),
]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="An IP address, or a range such as 10.0.0.0/8."),
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="NAME", help="Such as Read, Write or All; may be repeated."
    ),
]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="The names are prefixes: pattern type PREFIXED.")
]
Producer = Annotated[
    bool,
    typer.Option("--producer", help="The operations that a producer needs on the topics and ids."),
]
Consumer = Annotated[
    bool,
    typer.Option(
        "--consumer", help="The operations that a consumer needs on the topics and groups."
    ),
]


class Pattern(NamedTuple):
    """Resources as the options name them."""

    type: ResourceType
    name: str | None
    """None for all names, in filters only."""
    pattern: PatternType


@app.command("list")
def list_(
    *,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_resource: TokenOwner = None,
    cluster: OfCluster = False,
    principal: Principals = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print all ACLs, or the ACLs that apply to the given resources and principals.

    ACLs of prefixes and of all resources apply to a name too.
    """
    named = (topic, group, transactional_id, delegation_token, user_resource)
    patterns = _patterns(named, PatternType.MATCH, cluster=cluster)
    filters = [
        EVERY_ACL._replace(
            resource_type=each.type,
            resource_name=each.name,
            pattern_type=each.pattern,
            principal=name,
        )
        for each in patterns or [Pattern(ResourceType.ANY, None, PatternType.ANY)]
        for name in _principals(principal) or (None,)
    ]
    with Client(bootstrap, command_config) as client:
        found = sorted({acl for each in filters for acl in list_acls(client, each)})
    _show(found, as_json=as_json)


@app.command()
def add(
    *,
    principal: Principals = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_resource: TokenOwner = None,
    cluster: OfCluster = False,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    prefixed: Prefixed = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the operations.")] = False,
    host: Host = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Allow users operations on resources, or all that a producer or a consumer needs."""
    names = _principals(principal)
    if not names:
        raise CliError("for whom? give --principal")
    named = (topic, group, transactional_id, delegation_token, user_resource)
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    patterns = _patterns(named, kind, cluster=cluster)
    acls = [
        Acl(
            pattern.type,
            pattern.name or "",
            pattern.pattern,
            name,
            WILDCARD if host is None else _not_empty(host),
            each,
            Permission.DENY if deny else Permission.ALLOW,
        )
        for pattern, each in _rights(patterns, operation, producer=producer, consumer=consumer)
        for name in names
    ]
    with Client(bootstrap, command_config) as client:
        create_acls(client, acls)
    _show(sorted(acls), as_json=as_json)


@app.command()
def remove(
    *,
    principal: Principals = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_resource: TokenOwner = None,
    cluster: OfCluster = False,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    prefixed: Prefixed = False,
    deny: Annotated[bool, typer.Option("--deny", help="Only ACLs that deny.")] = False,
    host: Host = None,
    every: Annotated[bool, typer.Option("--all", help="All ACLs; without other options.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show, but change nothing.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove the ACLs that have all of the given properties, and print them.

    Names are compared with the names in ACLs: an ACL of a prefix needs --prefixed.
    """
    names = _principals(principal)
    named = (topic, group, transactional_id, delegation_token, user_resource)
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    patterns = _patterns(named, kind, cluster=cluster)
    rights: Sequence[tuple[Pattern, Operation]]
    if producer or consumer:
        rights = _rights(patterns, operation, producer=producer, consumer=consumer)
    else:
        anything = kind if prefixed else PatternType.ANY
        wanted = [_operation(word) for word in operation or ()] or [Operation.ANY]
        some = patterns or [Pattern(ResourceType.ANY, None, anything)]
        rights = [(pattern, each) for pattern in some for each in wanted]
    is_narrow = bool(names or patterns or operation or deny or prefixed or host is not None)
    if is_narrow == every:
        raise CliError("which ACLs? give --all, or options such as --principal and --topic")
    permission = Permission.DENY if deny else Permission.ANY
    filters = [
        AclFilter(
            pattern.type,
            pattern.name,
            pattern.pattern,
            name,
            None if host is None else _not_empty(host),
            each,
            permission,
        )
        for pattern, each in rights
        for name in names or (None,)
    ]
    with Client(bootstrap, command_config) as client:
        matched = {acl for each in filters for acl in list_acls(client, each)}
        # By themselves: an ACL that was added since is left.
        removed = sorted(matched) if dry_run else _delete(client, sorted(matched))
    _show(removed, as_json=as_json)


def _delete(client: Client, acls: Sequence[Acl]) -> list[Acl]:
    return delete_acls(client, [filter_of(each) for each in acls]) if acls else []


def _show(acls: Sequence[Acl], *, as_json: bool) -> None:
    rows = [
        (
            acl.principal,
            acl.permission.label,
            acl.operation.label,
            acl.resource_type.label,
            acl.pattern_type.name.lower(),
            acl.resource_name,
            acl.host,
        )
        for acl in acls
    ]
    show_rows(_COLUMNS, rows, as_json=as_json, none="no ACL matches")


def _rights(
    patterns: Sequence[Pattern], operations: Sequence[str] | None, *, producer: bool, consumer: bool
) -> list[tuple[Pattern, Operation]]:
    """The operations on resources that the options name. Raises CliError."""
    if not patterns:
        raise CliError("on what? give --topic, --group, --transactional-id or --cluster")
    if not producer and not consumer:
        if not operations:
            raise CliError("to do what? give --operation, --producer or --consumer")
        found = [(pattern, each) for pattern in patterns for each in map(_operation, operations)]
        for pattern, each in found:
            if each not in (Operation.ALL, *_CHECKED[pattern.type]):
                raise CliError(f"{each.label} has no effect on a {pattern.type.label}")
        return found
    if operations:
        raise CliError("--operation is not for --producer and --consumer, which have their own")
    types = {pattern.type for pattern in patterns}
    allowed = {ResourceType.TOPIC}
    allowed |= {ResourceType.TRANSACTIONAL_ID} if producer else set()
    allowed |= {ResourceType.GROUP} if consumer else set()
    if consumer and not {ResourceType.TOPIC, ResourceType.GROUP} <= types:
        raise CliError("--consumer needs --topic and --group")
    if ResourceType.TOPIC not in types or types - allowed:
        kinds = "--topic, perhaps --transactional-id" if producer else "--topic and --group"
        raise CliError(f"{'--producer' if producer else '--consumer'} is for {kinds}")
    return list(dict.fromkeys(_roles(patterns, producer=producer, consumer=consumer)))


def _roles(
    patterns: Sequence[Pattern], *, producer: bool, consumer: bool
) -> Iterator[tuple[Pattern, Operation]]:
    """What Kafka's own tool grants to producers and to consumers."""
    for pattern in patterns:
        match pattern.type:
            case ResourceType.TOPIC:
                wanted = (*(_PRODUCES if producer else ()), *(_CONSUMES if consumer else ()))
            case ResourceType.TRANSACTIONAL_ID:
                wanted = _WRITES
            case _:
                wanted = (Operation.READ,)
        for each in wanted:
            yield pattern, each


def _patterns(
    named: Sequence[Sequence[str] | None], kind: PatternType, *, cluster: bool
) -> list[Pattern]:
    """The resources that options name, whose values are in the order of _NAMED_TYPES."""
    found = [
        Pattern(type_, _resource_name(type_, name), kind)
        for type_, names in zip(_NAMED_TYPES, named, strict=True)
        for name in names or ()
    ]
    if cluster:
        found.append(Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def _principals(names: Sequence[str] | None) -> list[str]:
    return [_user(name) for name in names or ()]


def _user(name: str) -> str:
    """The principal of a user, who may be given without the type."""
    return name if ":" in name else f"User:{_not_empty(name)}"


def _not_empty(text: str) -> str:
    """The text of an option. Raises CliError for "", such as of a variable that is not set."""
    if not text:
        raise CliError("an option has an empty value")
    return text


def _resource_name(kind: ResourceType, name: str) -> str:
    """The name in ACLs, which call users by their principals."""
    is_user = kind is ResourceType.USER and name != WILDCARD
    return _user(name) if is_user else _not_empty(name)


def _operation(word: str) -> Operation:
    """The operation that a word names, as AlterConfigs, alter-configs or ALTER_CONFIGS."""
    known = {each.label.lower(): each for each in Operation if each > Operation.ANY}
    found = known.get(word.replace("-", "").replace("_", "").lower())
    if found is None:
        names = ", ".join(each.label for each in known.values())
        raise CliError(f"no operation {word!r}: one of {names}")
    return found
