"""Quotas of users, client ids and IP addresses (KIP-546): listed, set and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.client.client import Client, check
from wirekafka.protocol.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from wirekafka.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def list_quotas(client: Client) -> Sequence[DescribeClientQuotasResponse.EntryData]:
    """The entities that have quotas, with the values of these. Raises CliError."""
    response = client.send(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    check(response.error_code, "quotas", response.error_message)
    return response.entries or ()


def alter_quotas(
    client: Client, entity: Mapping[str, str], changes: Mapping[str, float | None]
) -> None:
    """Set the quotas of an entity by their names; None removes one. Raises CliError.

    The entity has a name for each of its types; an empty name is the default of the type.
    """
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=name or None)
                    for kind, name in entity.items()
                ],
                ops=[
                    entry.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ]
    )
    for result in client.send(request, AlterClientQuotasResponse).entries:
        check(result.error_code, "the quota", result.error_message)
