"""SCRAM credentials are stored as keys, described without them, and changed once per request."""

import hashlib
import hmac

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.alter_user_scram_credentials import alter_user_scram_credentials
from wirekafka.apis.describe_user_scram_credentials import describe_user_scram_credentials
from wirekafka.errors import Error
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.describe_user_scram_credentials import DescribeUserScramCredentialsRequest


@pytest.fixture
def cluster():
    return Cluster()


def alter(cluster, *upsertions, delete=()):
    request = AlterUserScramCredentialsRequest
    response = cluster.call(
        alter_user_scram_credentials,
        request(
            deletions=[
                request.ScramCredentialDeletion(name=user, mechanism=mechanism)
                for user, mechanism in delete
            ],
            upsertions=[
                request.ScramCredentialUpsertion(
                    name=user,
                    mechanism=mechanism,
                    iterations=iterations,
                    salt=b"s",
                    salted_password=b"p" * 32,
                )
                for user, mechanism, iterations in upsertions
            ],
        ),
        0,
    )
    return {each.user: (each.error_code, each.error_message) for each in response.results}


def describe(cluster, *users):
    user = DescribeUserScramCredentialsRequest.UserName
    response = cluster.call(
        describe_user_scram_credentials,
        DescribeUserScramCredentialsRequest(users=[user(name=name) for name in users] or None),
        0,
    )
    return {
        each.user: each.error_code
        or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in response.results
    }


def test_credentials_are_described_by_mechanism_and_iterations(cluster):
    assert alter(cluster, ("a", 1, 4096), ("b", 2, 8192)) == {"a": (0, None), "b": (0, None)}
    assert alter(cluster, ("a", 2, 16384)) == {"a": (0, None)}
    assert describe(cluster) == {"a": [(1, 4096), (2, 16384)], "b": [(2, 8192)]}
    assert describe(cluster, "b", "no") == {"b": [(2, 8192)], "no": Error.RESOURCE_NOT_FOUND}
    assert describe(cluster, "b", "b") == {"b": Error.DUPLICATE_RESOURCE}


def test_stored_keys_verify_a_password_without_containing_it(cluster):
    alter(cluster, ("a", 1, 4096))
    kept = cluster.image.security.scram["a", 1]
    client_key = hmac.digest(b"p" * 32, b"Client Key", "sha256")
    assert kept.stored_key == hashlib.sha256(client_key).digest()
    assert kept.server_key == hmac.digest(b"p" * 32, b"Server Key", "sha256")


def test_deleted_credentials_are_not_described(cluster):
    alter(cluster, ("a", 1, 4096))
    assert alter(cluster, delete=[("a", 1)]) == {"a": (0, None)}
    assert describe(cluster) == {}
    assert alter(cluster, delete=[("a", 1)]) == {
        "a": (Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    }


@pytest.mark.parametrize(
    ("upsertion", "error", "message"),
    [
        (("a", 1, 4095), Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (("a", 1, 16385), Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (("a", 3, 4096), Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (("", 1, 4096), Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
    ],
)
def test_invalid_credentials_are_refused(cluster, upsertion, error, message):
    assert alter(cluster, upsertion) == {upsertion[0]: (error, message)}


def test_a_user_is_changed_once_per_request_or_not_at_all(cluster):
    assert alter(cluster, ("a", 1, 4096), ("a", 2, 4096), ("b", 1, 4096)) == {
        "a": (
            Error.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "b": (0, None),
    }
    assert describe(cluster) == {"b": [(1, 4096)]}
