"""Users of a case: they log in on connections of their own, with the permissions it gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from wirekafka.config.client_config import ClientConfig
from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.errors import Error
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wirekafka.security.acl import Operation, PatternType, Permission, ResourceType

PASSWORD = "a-password"  # noqa: S105
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = {SHA_256: (1, "sha256"), SHA_512: (2, "sha512")}
"""The number and the hash of each mechanism."""
SALT = b"salt"
ITERATIONS = 4096
_ANY = 1

Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion


def upsertion(
    name: str, mechanism: str = SHA_256, password: str = PASSWORD, iterations: int = ITERATIONS
) -> Any:
    """The credential of a user for one mechanism."""
    number, algorithm = MECHANISMS[mechanism]
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, iterations)
    return Upsertion(
        name=name, mechanism=number, iterations=iterations, salt=SALT, salted_password=salted
    )


def add_user(
    stage: Stage,
    text: str = "user",
    *,
    acls: Iterable[CreateAclsRequest.AclCreation] = (),
    mechanism: str = SHA_256,
    password: str = PASSWORD,
) -> str:
    """Create ACLs, then a user of this case; returns its name.

    The connection named `text` logs in as the user. Whoever knows the user knows the ACLs.
    """
    add_acls(stage, acls)
    name = stage.name(text)
    set_password(stage, name, mechanism, password)
    stage.log_in(text, login(stage, name, mechanism, password))
    return name


def set_password(
    stage: Stage, name: str, mechanism: str = SHA_256, password: str = PASSWORD
) -> None:
    """Create or change a credential, and wait until all brokers know the user."""
    alter(stage, upsertions=[upsertion(name, mechanism, password)])
    await_mechanism(stage, name, mechanism)


def alter(stage: Stage, *, upsertions: Iterable[Any] = (), deletions: Iterable[Any] = ()) -> None:
    """Change credentials of users, which must succeed."""
    request = AlterUserScramCredentialsRequest(
        deletions=list(deletions), upsertions=list(upsertions)
    )
    for each in stage.do(request, 0).results:
        if each.error_code:
            raise PreparationFailed(f"AlterUserScramCredentials: {Error.of(each.error_code).name}")


def await_mechanism(stage: Stage, name: str, mechanism: str, *, is_there: bool = True) -> None:
    """Wait until all brokers know, or no longer know, the user's credential for a mechanism."""
    number, _ = MECHANISMS[mechanism]
    kind = DescribeUserScramCredentialsRequest.UserName
    request = DescribeUserScramCredentialsRequest(users=[kind(name=name)])

    def known(node: int) -> bool:
        (found,) = stage.do(request, 0, at=node).results
        return any(each.mechanism == number for each in found.credential_infos)

    def are_known() -> bool:
        return all(known(node) is is_there for node in stage.target.nodes)

    stage.until(are_known, f"the credential of {name}")


def login(
    stage: Stage, name: str, mechanism: str = SHA_256, password: str = PASSWORD, more: str = ""
) -> ClientConfig:
    """The options of a client that logs in as a user; `more` are options of the login module."""
    config = stage.target.config
    known = {} if config is None else {k: each.text for k, each in config.sources.static.items()}
    module = f'scram.ScramLoginModule required username="{name}" password="{password}"{more};'
    return ClientConfig({**known, "sasl.mechanism": mechanism, "sasl.jaas.config": module})


def acl(
    principal: str,
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> CreateAclsRequest.AclCreation:
    """An ACL, which allows by default."""
    return CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_pattern_type=pattern,
        resource_name=name,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def add_acls(stage: Stage, acls: Iterable[CreateAclsRequest.AclCreation]) -> None:
    """Create ACLs, and wait until all brokers list them."""
    creations = list(acls)
    if not creations:
        return
    for each in stage.do(CreateAclsRequest(creations=creations), 3).results:
        if each.error_code:
            raise PreparationFailed(f"CreateAcls: {Error.of(each.error_code).name}")
    for principal in {each.principal for each in creations}:
        count = len({str(each) for each in creations if each.principal == principal})
        await_acls(stage, principal, count)


def await_acls(stage: Stage, principal: str, count: int) -> None:
    """Wait until all brokers list so many ACLs of a principal."""
    request = acl_filter(principal=principal)

    def listed(node: int) -> int:
        answer = stage.do(request, 3, at=node)
        return sum(len(each.acls) for each in answer.resources)

    def are_listed() -> bool:
        return all(listed(node) == count for node in stage.target.nodes)

    stage.until(are_listed, f"the ACLs of {principal}")


def acl_filter(
    *,
    kind: int = _ANY,
    name: str | None = None,
    pattern: int = _ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = _ANY,
    permission: int = _ANY,
) -> DescribeAclsRequest:
    """A DescribeAcls request; what is not given matches all."""
    return DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )
