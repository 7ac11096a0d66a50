"""DeleteGroups: deletes empty consumer groups with all their offsets (KIP-229)."""

from __future__ import annotations

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String
from wirekafka.errors import KafkaError


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[String]


class DeleteGroupsResponse(Response, answers=DeleteGroupsRequest):
    throttle_time_ms: Int32
    results: list[DeletableGroupResult]

    class DeletableGroupResult(Part):
        group_id: String
        error_code: Int16


@api(DeleteGroupsRequest, DeleteGroupsResponse)
async def delete_groups(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    """Delete groups without members, with their offsets."""
    errors = await call.broker.groups.delete_groups(request.groups_names)
    return DeleteGroupsResponse(results=[
        DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error)
        for group_id, error in errors.items()
    ])


def delete_groups_failure(request: DeleteGroupsRequest, error: KafkaError,
                          call: Call) -> DeleteGroupsResponse:
    """Every group fails alike."""
    return DeleteGroupsResponse(results=[
        DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error.error)
        for group_id in request.groups_names])
