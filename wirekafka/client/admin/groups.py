"""Deletes groups and their offsets."""

from __future__ import annotations

from wirekafka.client.client import Client, check
from wirekafka.protocol.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


def delete_group(client: Client, name: str) -> None:
    """Delete a group of any type that has no members. Raises CliError."""
    request = DeleteGroupsRequest(groups_names=[name])
    for result in client.coordinator(name).send(request, DeleteGroupsResponse).results:
        check(result.error_code, f"group {name}")
