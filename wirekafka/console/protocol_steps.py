"""Errors in responses that are normal steps of Kafka's protocol: clients expect and follow them."""

from __future__ import annotations

from collections.abc import Mapping

_ANY: frozenset[str] = frozenset()

_STEPS: Mapping[str, frozenset[str]] = {
    # A new member of a group joins twice: the first response has its id.
    "MEMBER_ID_REQUIRED": frozenset({"JoinGroup"}),
    # How members learn that they have to join anew.
    "REBALANCE_IN_PROGRESS": frozenset({"Heartbeat", "JoinGroup", "SyncGroup"}),
    # The client looks for the coordinator, or waits until it has loaded its state.
    "COORDINATOR_LOAD_IN_PROGRESS": _ANY,
    "COORDINATOR_NOT_AVAILABLE": _ANY,
    "NOT_COORDINATOR": _ANY,
    # The client looks for the leader or the controller.
    "FENCED_LEADER_EPOCH": _ANY,
    "LEADER_NOT_AVAILABLE": frozenset({"Metadata"}),
    "NEW_LEADER_ELECTED": _ANY,
    "NOT_CONTROLLER": _ANY,
    "NOT_LEADER_OR_FOLLOWER": _ANY,
    "OFFSET_NOT_AVAILABLE": frozenset({"ListOffsets"}),
    "UNKNOWN_LEADER_EPOCH": _ANY,
    # The client begins another session.
    "FETCH_SESSION_ID_NOT_FOUND": frozenset({"Fetch"}),
    "FETCH_SESSION_TOPIC_ID_ERROR": frozenset({"Fetch"}),
    "INVALID_FETCH_SESSION_EPOCH": frozenset({"Fetch"}),
    "INVALID_SHARE_SESSION_EPOCH": frozenset({"ShareAcknowledge", "ShareFetch"}),
    "SHARE_SESSION_NOT_FOUND": frozenset({"ShareAcknowledge", "ShareFetch"}),
    "UNKNOWN_SUBSCRIPTION_ID": frozenset({"PushTelemetry"}),
    # The previous transaction is still being ended: the client tries again.
    "CONCURRENT_TRANSACTIONS": frozenset(
        {"AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "InitProducerId"}
    ),
    "UNSTABLE_OFFSET_COMMIT": frozenset({"OffsetFetch"}),
    # The client has asked with a version that is too new, and goes on with an older one.
    "UNSUPPORTED_VERSION": frozenset({"ApiVersions"}),
}
"""The APIs in whose responses each error is a step; an empty set stands for all APIs."""


def is_step(api: str, error: str) -> bool:
    """Whether an error, by its name, is a normal step of the protocol in responses of an API."""
    apis = _STEPS.get(error)
    return apis is not None and (not apis or api in apis)
