"""Without authorizer and authentication, ACL and token requests get the errors of Kafka."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.create_acls import create_acls
from wirekafka.apis.create_delegation_token import create_delegation_token
from wirekafka.apis.delete_acls import delete_acls
from wirekafka.apis.describe_acls import describe_acls
from wirekafka.apis.describe_delegation_token import describe_delegation_token
from wirekafka.apis.expire_delegation_token import expire_delegation_token
from wirekafka.apis.renew_delegation_token import renew_delegation_token
from wirekafka.apis.sasl_authenticate import sasl_authenticate
from wirekafka.apis.sasl_handshake import sasl_handshake
from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.create_delegation_token import CreateDelegationTokenRequest
from wirekafka.protocol.delete_acls import DeleteAclsRequest
from wirekafka.protocol.describe_acls import DescribeAclsRequest
from wirekafka.protocol.describe_delegation_token import DescribeDelegationTokenRequest
from wirekafka.protocol.expire_delegation_token import ExpireDelegationTokenRequest
from wirekafka.protocol.renew_delegation_token import RenewDelegationTokenRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest

_CREATION = CreateAclsRequest.AclCreation(
    resource_type=2, resource_name="t", principal="User:x", host="*", operation=3, permission_type=3
)
_FILTER = DeleteAclsRequest.Filter(resource_type_filter=1, operation=1, permission_type=1)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_not_in_use_without_an_authorizer(cluster, version):
    response = cluster.call(
        describe_acls,
        DescribeAclsRequest(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        ),
        version,
    )
    assert (response.error_code, response.error_message, response.resources) == (
        Error.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_acl_to_create_or_delete_has_a_result(cluster, version):
    refused = [(Error.SECURITY_DISABLED, "No Authorizer is configured.")] * 2
    created = cluster.call(create_acls, CreateAclsRequest(creations=[_CREATION] * 2), version)
    assert [(each.error_code, each.error_message) for each in created.results] == refused
    deleted = cluster.call(delete_acls, DeleteAclsRequest(filters=[_FILTER] * 2), version)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == refused


def refused(cluster, handler, request, version):
    """The response that reports the error which a handler raises."""
    with pytest.raises(KafkaError) as raised:
        cluster.call(handler, request, version)
    response = registry.declared_by(type(request)).failure(request, raised.value, Call(cluster))
    return type(response).decode(response.encode(version), version)


def test_an_unauthenticated_client_gets_no_token(cluster):
    response = refused(cluster, create_delegation_token, CreateDelegationTokenRequest(), 3)
    assert response.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (response.principal_type, response.principal_name) == ("User", "ANONYMOUS")
    assert (response.issue_timestamp_ms, response.token_id, response.hmac) == (-1, "", b"")


@pytest.mark.parametrize(
    ("handler", "request_"),
    [
        (describe_delegation_token, DescribeDelegationTokenRequest(owners=None)),
        (renew_delegation_token, RenewDelegationTokenRequest(hmac=b"a")),
        (expire_delegation_token, ExpireDelegationTokenRequest(hmac=b"a")),
    ],
)
def test_an_unauthenticated_client_has_no_tokens(cluster, handler, request_):
    response = refused(cluster, handler, request_, 2)
    assert response.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert getattr(response, "expiry_timestamp_ms", -1) == -1


@pytest.mark.parametrize("version", [0, 1])
def test_a_plaintext_listener_refuses_the_sasl_handshake(cluster, version):
    response = cluster.call(sasl_handshake, SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (Error.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_plaintext_listener_refuses_sasl_authentication(cluster, version):
    response = cluster.call(sasl_authenticate, SaslAuthenticateRequest(auth_bytes=b"x"), version)
    assert (response.error_code, response.error_message, response.auth_bytes) == (
        Error.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
        b"",
    )
