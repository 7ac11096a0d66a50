"""Without an authorizer and authentication, ACLs and tokens are refused as Kafka refuses them."""

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.apis.create_acls import CreateAclsRequest, create_acls
from wirekafka.apis.create_delegation_token import (
    CreateDelegationTokenRequest,
    create_delegation_token,
)
from wirekafka.apis.delete_acls import DeleteAclsRequest, delete_acls
from wirekafka.apis.describe_acls import DescribeAclsRequest, describe_acls
from wirekafka.apis.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    describe_delegation_token,
)
from wirekafka.apis.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    expire_delegation_token,
)
from wirekafka.apis.renew_delegation_token import (
    RenewDelegationTokenRequest,
    renew_delegation_token,
)
from wirekafka.apis.sasl_authenticate import SaslAuthenticateRequest, sasl_authenticate
from wirekafka.apis.sasl_handshake import SaslHandshakeRequest, sasl_handshake
from wirekafka.errors import Error


@pytest.fixture
def cluster():
    return Cluster()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_not_in_use_without_an_authorizer(cluster, version):
    told = cluster.call(describe_acls, DescribeAclsRequest(pattern_type_filter=1), version)
    assert (told.error_code, told.error_message, told.resources) == (
        Error.SECURITY_DISABLED, "No Authorizer is configured on the broker", [])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_acl_to_create_or_delete_is_answered(cluster, version):
    refused = [(Error.SECURITY_DISABLED, "No Authorizer is configured.")] * 2
    created = cluster.call(create_acls, CreateAclsRequest(
        creations=[CreateAclsRequest.AclCreation()] * 2), version)
    assert [(each.error_code, each.error_message) for each in created.results] == refused
    deleted = cluster.call(delete_acls, DeleteAclsRequest(
        filters=[DeleteAclsRequest.Filter()] * 2), version)
    assert [(each.error_code, each.error_message)
            for each in deleted.filter_results] == refused


def test_who_is_not_authenticated_gets_no_token(cluster):
    told = cluster.call(create_delegation_token, CreateDelegationTokenRequest(), 3)
    assert told.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (told.principal_type, told.principal_name) == ("User", "ANONYMOUS")
    assert (told.issue_timestamp_ms, told.token_id, told.hmac) == (-1, "", b"")


@pytest.mark.parametrize(("handler", "request_"), [
    (describe_delegation_token, DescribeDelegationTokenRequest(owners=None)),
    (renew_delegation_token, RenewDelegationTokenRequest(hmac=b"a")),
    (expire_delegation_token, ExpireDelegationTokenRequest(hmac=b"a")),
])
def test_who_is_not_authenticated_has_no_tokens(cluster, handler, request_):
    told = cluster.call(handler, request_, 2)
    assert told.error_code == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert getattr(told, "expiry_timestamp_ms", -1) == -1


@pytest.mark.parametrize("version", [0, 1])
def test_no_mechanism_is_agreed_on_where_nobody_authenticates(cluster, version):
    told = cluster.call(sasl_handshake, SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (told.error_code, told.mechanisms) == (Error.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_nobody_authenticates_where_nobody_has_to(cluster, version):
    told = cluster.call(sasl_authenticate, SaslAuthenticateRequest(auth_bytes=b"x"), version)
    assert (told.error_code, told.error_message, told.auth_bytes) == (
        Error.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication", b"")
