"""Kafka's error codes, which of them clients retry, and the exception that carries one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Error(IntEnum):
    """Every error code of Kafka 4.4 (org.apache.kafka.common.protocol.Errors)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @classmethod
    def of(cls, code: int) -> Error:
        """The error of a code in a response; UNKNOWN_SERVER_ERROR for a code of a newer broker."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    @property
    def retriable(self) -> bool:
        """Whether clients retry the request by themselves."""
        return self in _RETRIABLE


MOST_MESSAGE_CHARACTERS = 8_191
"""In UTF-8 they take at most 32,764 bytes: every version of a response holds 32,767."""
_CUT = "..."


class KafkaError(Exception):
    """An error to be returned in a response: its code, and a message, None for Kafka's default.

    A message that quotes a client's text may be long: it is cut to the size that a response holds.
    """

    def __init__(self, error: Error, message: str | None = None):
        if message is not None and len(message) > MOST_MESSAGE_CHARACTERS:
            message = f"{message[: MOST_MESSAGE_CHARACTERS - len(_CUT)]}{_CUT}"
        super().__init__(f"{error.name}: {message}" if message else error.name)
        self.error = error
        self.message = message

    @classmethod
    def of(cls, code: int, message: str | None = None) -> KafkaError:
        """The error of another node's response, by its code; the message has an unknown code."""
        error = Error.of(code)
        return cls(error, message or (None if error == code else f"error {code}"))


def error_name(error_code: int) -> str:
    """Kafka's name for an error; its number for an error of a later Kafka."""
    known = error_code in Error._value2member_map_
    return Error(error_code).name if known else f"error {error_code}"


_RETRIABLE = frozenset(
    {
        Error.CORRUPT_MESSAGE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.REQUEST_TIMED_OUT,
        Error.REPLICA_NOT_AVAILABLE,
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.NOT_CONTROLLER,
        Error.CONCURRENT_TRANSACTIONS,
        Error.KAFKA_STORAGE_ERROR,
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.LISTENER_NOT_FOUND,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.OFFSET_NOT_AVAILABLE,
        Error.PREFERRED_LEADER_NOT_AVAILABLE,
        Error.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        Error.ELECTION_NOT_NEEDED,
        Error.UNSTABLE_OFFSET_COMMIT,
        Error.THROTTLING_QUOTA_EXCEEDED,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
        Error.SHARE_SESSION_NOT_FOUND,
        Error.INVALID_SHARE_SESSION_EPOCH,
        Error.SHARE_SESSION_LIMIT_REACHED,
    }
)

DEFAULT_MESSAGES: Mapping[Error, str] = {
    Error.NONE: "NONE",
    Error.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the "
    "request.",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    Error.NOT_LEADER_OR_FOLLOWER: "For requests intended only for the leader, this error indicates "
    "that the broker is not the current leader. For requests intended for any replica, this error "
    "indicates that the broker is not a replica of the topic partition.",
    Error.REQUEST_TIMED_OUT: "The request timed out.",
    Error.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process "
    "requests.",
    Error.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Error.NOT_COORDINATOR: "This is not the correct coordinator.",
    Error.ILLEGAL_SASL_STATE: "Request is not valid given the current SASL state.",
    Error.NOT_ENOUGH_REPLICAS: "Messages are rejected since there are fewer in-sync replicas than "
    "required.",
    Error.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    Error.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the "
    "client library or the message was sent to an incompatible broker. See the broker logs for "
    "more details.",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    Error.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the "
    "broker.",
    Error.FENCED_STATE_EPOCH: "The coordinator rejected the request because the state epoch did "
    "not match.",
}
"""Kafka's `Errors.message()`, for the errors that some response reports with a message."""


class MalformedRequest(Exception):
    """A request whose fields hold what no client may send: Kafka closes the connection."""
