"""SCRAM follows RFC 5802 and RFC 7677 strictly, and refuses some messages that Kafka accepts."""

import base64
import statistics
import time
from collections.abc import Callable

import pytest

from tests.sasl_client import ScramClient
from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, Success
from wirekafka.security.sasl.scram import (
    ALGORITHMS,
    SHA_256,
    Algorithm,
    Credential,
    Scram,
    TokenLogin,
)

SALT = b"0123456789abcdef"
NOW_MS = 1_700_000_000_000


def mechanism(algorithm: Algorithm = SHA_256, nonce: str = "server", **users: str) -> Scram:
    known = {
        user: Credential.of_password(password, algorithm, SALT, 4096)
        for user, password in (users or {"user": "pencil"}).items()
    }
    token = TokenLogin(Credential.of_password("mac", algorithm, SALT, 4096), "owner", NOW_MS + 5)
    return Scram(
        algorithm=algorithm,
        credential=known.get,
        token={"token-1": token}.get,
        new_nonce=lambda: nonce,
    )


def log_in(client: ScramClient, scram: Scram | None = None) -> Success:
    exchange = (scram or mechanism()).start()
    challenge = exchange.respond(client.first(), NOW_MS)
    assert isinstance(challenge, Challenge)
    success = exchange.respond(client.final(challenge.token), NOW_MS)
    assert isinstance(success, Success)
    assert client.is_proven_by(success.token)
    return success


def test_the_example_of_rfc_7677() -> None:
    """Section 3: the bytes of both sides are given there."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential.of_password("pencil", SHA_256, salt, 4096)
    exchange = Scram(
        algorithm=SHA_256,
        credential={"user": credential}.get,
        new_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    ).start()
    challenge = exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW_MS)
    assert challenge.token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = exchange.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        NOW_MS,
    )
    assert final == Success(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_both_algorithms(algorithm: Algorithm) -> None:
    client = ScramClient("user", "pencil", algorithm.hash().name)
    assert log_in(client, mechanism(algorithm)).user == "user"


def test_names_with_reserved_characters() -> None:
    client = ScramClient("a=2Cb=3Dc", "pencil")
    assert log_in(client, mechanism(**{"a,b=c": "pencil"})).user == "a,b=c"


def test_own_authorization_id() -> None:
    client = ScramClient("user", "pencil")
    client.header = "n,a=user,"
    assert log_in(client).user == "user"


def test_a_delegation_token_logs_in_as_its_owner_until_it_expires() -> None:
    client = ScramClient("token-1", "mac", extensions=",tokenauth=true")
    assert log_in(client) == Success(
        b"v=" + log_in(client).token[2:], "owner", NOW_MS + 5, by_delegation_token=True
    )


def test_a_token_id_is_no_user_name() -> None:
    refuses(ScramClient("token-1", "mac"))


def test_a_user_name_is_no_token_id() -> None:
    refuses(ScramClient("user", "pencil", extensions=",tokenauth=true"))


def refuses(client: ScramClient, scram: Scram | None = None) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as refusal:
        log_in(client, scram)
    assert client.password not in str(refusal.value)
    return refusal.value


def changed(**attributes: object) -> ScramClient:
    client = ScramClient("user", "pencil")
    for name, value in attributes.items():
        setattr(client, name, value)
    return client


@pytest.mark.parametrize(
    "client",
    [
        changed(password="wrong"),
        changed(user="nobody"),
        changed(nonce=""),
        changed(nonce="a,b"),
        changed(nonce="a b"),
        changed(final_nonce="server"),
        changed(final_nonce="fyko+d2lbbFgONRv9qkxdawLserverx"),
        changed(final_nonce="xfyko+d2lbbFgONRv9qkxdawLserver"),
        changed(final_nonce="fyko+d2lbbFgONRv9qkxdawLserve"),
        changed(binding=b""),
        changed(binding=b"y,,"),
        changed(binding=b"n,a=user,"),
        changed(header="n,a=admin,"),
        changed(header="y,,"),
        changed(header="p=tls-unique,,"),
        changed(header="n,,m=x,"),
        changed(user=""),
        changed(user="a=2Xb"),
        changed(user="\u00fc"),
    ],
    ids=lambda client: f"{client.header}{client.user}",
)
def test_invalid_messages_are_refused(client: ScramClient) -> None:
    refuses(client)


def test_too_few_iterations_are_refused() -> None:
    weak = Credential.of_password("pencil", SHA_256, SALT, 4095)
    scram = Scram(algorithm=SHA_256, credential={"user": weak}.get, new_nonce=lambda: "server")
    refuses(ScramClient("user", "pencil"), scram)


def test_unknown_users_and_wrong_passwords_read_the_same() -> None:
    assert refuses(changed(user="nobody")).shown is None
    assert refuses(changed(password="wrong")).shown is None


def bad_final(change: Callable[[bytes], bytes]) -> None:
    client = ScramClient("user", "pencil")
    exchange = mechanism().start()
    challenge = exchange.respond(client.first(), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        exchange.respond(change(client.final(challenge.token)), NOW_MS)
    # The exchange has ended: the valid message comes too late.
    with pytest.raises(AuthenticationFailed):
        exchange.respond(client.final(challenge.token), NOW_MS)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"",
        lambda final: final[:-4],
        lambda final: final.partition(b",p=")[0],
        lambda final: final.partition(b"p=")[0] + b"p=",
        lambda final: final.partition(b"p=")[0] + b"p=AAAA",
        lambda final: final + b",x=y",
        lambda final: final + b"\n",
        lambda final: final.replace(b"c=", b"c=\xff"),
    ],
)
def test_a_changed_final_message_is_refused(change: Callable[[bytes], bytes]) -> None:
    bad_final(change)


def test_an_extension_after_the_nonce_is_not_part_of_the_proof() -> None:
    """As in Kafka; RFC 5802 section 5.1 has the proof cover it."""
    client, exchange = ScramClient("user", "pencil"), mechanism().start()
    challenge = exchange.respond(client.first(), NOW_MS)
    final = client.final(challenge.token).replace(b",p=", b",x=y,p=")
    assert isinstance(exchange.respond(final, NOW_MS), Success)
    client, exchange = ScramClient("user", "pencil"), mechanism().start()
    client.final_extensions = ",x=y"
    challenge = exchange.respond(client.first(), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        exchange.respond(client.final(challenge.token), NOW_MS)


def test_a_message_after_success_is_refused() -> None:
    client, exchange = ScramClient("user", "pencil"), mechanism().start()
    challenge = exchange.respond(client.first(), NOW_MS)
    final = client.final(challenge.token)
    assert isinstance(exchange.respond(final, NOW_MS), Success)
    with pytest.raises(AuthenticationFailed):
        exchange.respond(final, NOW_MS)


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    """A recorded final message is useless in another exchange."""
    client = ScramClient("user", "pencil")
    first = mechanism(nonce="one").start()
    final = client.final(first.respond(client.first(), NOW_MS).token)
    second = mechanism(nonce="two").start()
    second.respond(client.first(), NOW_MS)
    with pytest.raises(AuthenticationFailed):
        second.respond(final, NOW_MS)


def test_credentials_are_hidden() -> None:
    credential = Credential.of_password("pencil", SHA_256, SALT, 4096)
    assert repr(credential) == "Credential(iterations=4096)"


def test_how_much_of_a_proof_is_right_cannot_be_measured() -> None:
    """CVE-2021-38153: proofs wrong in their first and in their last byte take the same time."""
    client, scram = ScramClient("user", "pencil"), mechanism()
    exchange = scram.start()
    challenge = exchange.respond(client.first(), NOW_MS)
    assert isinstance(challenge, Challenge)
    message, proof = client.final(challenge.token).rsplit(b",p=", 1)
    digest = base64.b64decode(proof)
    wrong = [bytes([digest[0] ^ 1]) + digest[1:], digest[:-1] + bytes([digest[-1] ^ 1])]
    finals = [message + b",p=" + base64.b64encode(each) for each in wrong]
    spent: list[list[int]] = [[], []]
    for number in range(3000):
        # Each is the first one alternately, so that caches and clocks favour neither.
        for which in ((0, 1), (1, 0))[number % 2]:
            attempt = scram.start()
            assert isinstance(attempt.respond(client.first(), NOW_MS), Challenge)
            begun = time.perf_counter_ns()
            with pytest.raises(AuthenticationFailed):
                attempt.respond(finals[which], NOW_MS)
            spent[which].append(time.perf_counter_ns() - begun)
    medians = [statistics.median(times) for times in spent]
    assert max(medians) < 1.25 * min(medians), medians
