"""Removes what cases have made: everything whose name begins with the prefix of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from wirekafka.client.admin.acls import NoAuthorizer, delete_acls, filter_of, list_acls
from wirekafka.client.admin.quotas import alter_quotas, list_quotas
from wirekafka.client.admin.users import list_users
from wirekafka.client.client import BrokerConnection, Client, CliError
from wirekafka.client.configurations import alter_configs
from wirekafka.client.topic_changes import delete_topics
from wirekafka.codec.message import Request
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.protocol.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wirekafka.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wirekafka.protocol.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from wirekafka.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.security.sasl.scram import ALGORITHMS

_PATIENCE_S = 20.0
_POLL_S = 0.2
_USERS_AT_ONCE = _ACLS_AT_ONCE = 100
_GROUP_CONFIG, _CLIENT_METRICS = 32, 16
_KINDS: dict[str, tuple[type[Request], type[Request]]] = {
    "consumer": (ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest),
    "share": (ShareGroupDescribeRequest, ShareGroupHeartbeatRequest),
    "streams": (StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest),
}
"""How the members of groups are found, and how they leave, by the type of the group."""
_LEAVES = -1


def clean(bootstrap: Iterable[Address], config: ClientConfig | None, prefix: str) -> list[str]:
    """Delete everything of a run; returns what is left, in words, empty if nothing is.

    Transactional and producer ids, and internal topics, go as the broker lets them expire.
    """
    left: list[str] = []
    with Client(",".join(map(str, bootstrap)), config) as client:
        sweeps: tuple[tuple[str, Callable[[Client, str], list[str]]], ...] = (
            ("members of classic groups", _classic_members),
            ("groups", _groups),
            ("topics", _topics),
            ("configurations", _configurations),
            ("quotas", _quotas),
            ("ACLs", _acls),
            ("users", _users),
        )
        for what, sweep in sweeps:
            left += [f"{what}: {each}" for each in _until_empty(client, prefix, sweep)]
    return left


def _until_empty(
    client: Client, prefix: str, sweep: Callable[[Client, str], list[str]]
) -> list[str]:
    """What is left of one kind; a broker without the API has nothing of the kind."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            left = sweep(client, prefix)
        except CliError as error:
            if "does not answer" in str(error):
                return []
            left = [str(error)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_POLL_S)


def _topics(client: Client, prefix: str) -> list[str]:
    names = [each.name or "" for each in client.metadata().topics]
    mine = [each for each in names if each.startswith(prefix)]
    for at in range(0, len(mine), 100):
        delete_topics(client, mine[at : at + 100])
    return mine


def _classic_members(client: Client, prefix: str) -> list[str]:
    """Let members leave, whose sessions would keep their groups."""
    left = []
    client.metadata([])
    for node in client.node_ids():
        connection = client.node(node)
        listed = connection.send(ListGroupsRequest(), ListGroupsResponse).groups
        mine = [each.group_id for each in listed if each.group_id.startswith(prefix)]
        asked = DescribeGroupsRequest(groups=mine)
        for group in connection.send(asked, DescribeGroupsResponse).groups if mine else []:
            identity = LeaveGroupRequest.MemberIdentity
            members = [identity(member_id=each.member_id) for each in group.members]
            if members and not group.error_code:
                request = LeaveGroupRequest(group_id=group.group_id, members=members)
                connection.send(request, LeaveGroupResponse)
                left.append(group.group_id)
    return left


def _groups(client: Client, prefix: str) -> list[str]:
    left = []
    client.metadata([])
    for node in client.node_ids():
        connection = client.node(node)
        listed = connection.send(ListGroupsRequest(), ListGroupsResponse).groups
        mine = [each.group_id for each in listed if each.group_id.startswith(prefix)]
        if mine:
            request = DeleteGroupsRequest(groups_names=mine)
            deleted = connection.send(request, DeleteGroupsResponse).results
            with_members = {each.group_id for each in deleted if each.error_code}
            for each in listed:
                if each.group_id in with_members:
                    _empty(connection, each.group_id, each.group_type.lower())
        left += mine
    return left


def _empty(connection: BrokerConnection, group_id: str, kind: str) -> None:
    """Have all members leave a group whose members are known by their heartbeats."""
    if kind not in _KINDS:
        return
    describe, heartbeat = _KINDS[kind]
    found: Any = connection.send(describe(group_ids=[group_id]), describe.response)
    for member in found.groups[0].members:
        leave = heartbeat(group_id=group_id, member_id=member.member_id, member_epoch=_LEAVES)
        connection.send(leave, heartbeat.response)


def _configurations(client: Client, prefix: str) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=[_GROUP_CONFIG, _CLIENT_METRICS])
    listed = client.send(request, ListConfigResourcesResponse).config_resources
    mine = [each for each in listed if each.resource_name.startswith(prefix)]
    for each in mine:
        keys = _set_keys(client, each.resource_type, each.resource_name)
        if keys:
            alter_configs(client, each.resource_type, each.resource_name, dict.fromkeys(keys))
    return [each.resource_name for each in mine]


def _set_keys(client: Client, kind: int, name: str) -> list[str]:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    (found,) = client.send(request, DescribeConfigsResponse).results
    sources: dict[int, Any] = {1: "topic", 7: "client metrics", 8: "group"}
    return [each.name for each in found.configs if each.config_source in sources]


def _quotas(client: Client, prefix: str) -> list[str]:
    left = []
    for entry in list_quotas(client):
        entity = {part.entity_type: part.entity_name or "" for part in entry.entity}
        if any(name.startswith(prefix) for name in entity.values()):
            alter_quotas(client, entity, {each.key: None for each in entry.values})
            left.append(str(entity))
    return left


def _acls(client: Client, prefix: str) -> list[str]:
    try:
        listed = list_acls(client)
    except NoAuthorizer:
        return []
    mine = [
        each
        for each in listed
        if each.resource_name.startswith(prefix) or each.principal.startswith(f"User:{prefix}")
    ]
    for at in range(0, len(mine), _ACLS_AT_ONCE):
        delete_acls(client, [filter_of(each) for each in mine[at : at + _ACLS_AT_ONCE]])
    return [str(each) for each in mine]


def _users(client: Client, prefix: str) -> list[str]:
    mine = [each for each in list_users(client) if each.name.startswith(prefix)]
    kind = AlterUserScramCredentialsRequest.ScramCredentialDeletion
    # One credential of each user: a request may not have two.
    deletions = [
        kind(name=each.name, mechanism=ALGORITHMS[each.mechanism].number)
        for each in {each.name: each for each in mine}.values()
    ]
    for at in range(0, len(deletions), _USERS_AT_ONCE):
        request = AlterUserScramCredentialsRequest(
            deletions=deletions[at : at + _USERS_AT_ONCE], upsertions=[]
        )
        client.send(request, AlterUserScramCredentialsResponse)
    return [each.name for each in mine]
