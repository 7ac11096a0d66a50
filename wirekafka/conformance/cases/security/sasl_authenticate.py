"""SaslAuthenticate: passwords and messages of SCRAM, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.security.logins import (
    PLAIN,
    RAW,
    connect,
    look_whether_open,
    name_nonce,
    name_signature,
    own_login,
    plain,
    scram,
    send_token,
    shake,
)
from wirekafka.conformance.cases.security.scram import ScramMessages
from wirekafka.conformance.cases.security.users import (
    PASSWORD,
    SHA_256,
    SHA_512,
    Deletion,
    add_user,
    alter,
    await_mechanism,
    set_password,
)
from wirekafka.conformance.stage import PreparationFailed, Stage
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest

BOOK = Book(
    SaslAuthenticateRequest,
    "security",
    ConformanceLevel.SECURITY,
    "KIP-152",
    frozenset({Need.LOGIN}),
)
_SCRAM, _PLAIN = frozenset({Need.SCRAM}), frozenset({Need.PLAIN})

Token = Callable[[str, str], bytes]

_TOKENS: dict[str, Token] = {
    "the right password": plain,
    "a wrong password": lambda user, _: plain(user, "wrong"),
    "an unknown user": lambda _, password: plain("mallory", password),
    "no user": lambda _, password: plain("", password),
    "no password": lambda user, _: plain(user, ""),
    "the user as authorization id": lambda user, password: plain(user, password, user),
    "another authorization id": lambda user, password: plain(user, password, "root"),
    "a user in capitals": lambda user, password: plain(user.upper(), password),
    "a password with a line end": lambda user, password: plain(user, f"{password}\n"),
    "one part": lambda user, _: user.encode(),
    "two parts": lambda user, password: f"{user}\0{password}".encode(),
    "four parts": lambda user, password: f"\0{user}\0{password}\0".encode(),
    "nine parts": lambda *_: b"\0" * 8,
    "no bytes": lambda *_: b"",
    "bytes that are no text": lambda user, _: b"\0" + user.encode() + b"\0\xff\xfe",
}

for _what, _token in _TOKENS.items():

    @BOOK.play(f"PLAIN with {_what}", needs=_PLAIN)
    def _plain(stage: Stage, token: Token = _token) -> None:
        """The token of PLAIN, and whether the connection serves afterwards."""
        connect(stage)
        shake(stage)
        send_token(stage, token(*own_login(stage)), None)
        look_whether_open(stage)

    @BOOK.play(f"a bare token of PLAIN with {_what}", versions="2", source="KIP-43", needs=_PLAIN)
    def _bare(stage: Stage, token: Token = _token) -> None:
        """After a handshake of version 0 tokens are frames of their own, without a header."""
        connect(stage)
        shake(stage, PLAIN, 0)
        sent = token(*own_login(stage))
        stage.exchange(len(sent).to_bytes(4, "big") + sent, by=RAW, logs_in=False)
        look_whether_open(stage)


@BOOK.play("a token before the handshake")
def _before(stage: Stage) -> None:
    """The connection ends."""
    connect(stage)
    send_token(stage, plain("a", "b"), None)


@BOOK.play("a token after the login", needs=_PLAIN)
def _after(stage: Stage) -> None:
    """A token without a further handshake is refused, and the connection goes on."""
    connect(stage)
    shake(stage)
    token = plain(*own_login(stage))
    send_token(stage, token, None)
    send_token(stage, token, None)
    look_whether_open(stage)


@BOOK.play("a request in place of a bare token", needs=_PLAIN)
def _request_for_token(stage: Stage) -> None:
    """After a handshake of version 0 a request is taken for a token."""
    connect(stage)
    shake(stage, PLAIN, 0)
    send_token(stage, plain(*own_login(stage)), None)


@BOOK.play("a bare token in place of a request", versions="2", needs=_PLAIN)
def _token_for_request(stage: Stage) -> None:
    """After a handshake of version 1 a bare token is no request."""
    connect(stage)
    shake(stage)
    sent = plain(*own_login(stage))
    stage.exchange(len(sent).to_bytes(4, "big") + sent, by=RAW, logs_in=False)


@BOOK.play("a bare token that is too large", versions="2", needs=_PLAIN)
def _large(stage: Stage) -> None:
    """The connection ends."""
    connect(stage)
    shake(stage, PLAIN, 0)
    stage.exchange(((1 << 19) + 1).to_bytes(4, "big"), by=RAW, logs_in=False)


for _mechanism in (SHA_256, SHA_512):

    @BOOK.play(f"{_mechanism} with the right password", needs=_SCRAM)
    def _right(stage: Stage, mechanism: str = _mechanism) -> None:
        """Both sides prove that they know the password."""
        user = add_user(stage, mechanism=mechanism)
        connect(stage)
        scram(stage, ScramMessages(user, mechanism=mechanism), mechanism, None)
        look_whether_open(stage)

    @BOOK.play(f"{_mechanism} with a wrong password", needs=_SCRAM)
    def _wrong(stage: Stage, mechanism: str = _mechanism) -> None:
        """The last message is refused, and the connection ends."""
        user = add_user(stage, mechanism=mechanism)
        connect(stage)
        scram(stage, ScramMessages(user, "wrong", mechanism), mechanism, None)
        look_whether_open(stage)

    @BOOK.play(f"{_mechanism} with an unknown user", needs=_SCRAM)
    def _unknown(stage: Stage, mechanism: str = _mechanism) -> None:
        """The first message is refused."""
        connect(stage)
        scram(stage, ScramMessages(stage.name("mallory"), mechanism=mechanism), mechanism, None)
        look_whether_open(stage)

    @BOOK.play(f"{_mechanism} with a password for the other mechanism", needs=_SCRAM)
    def _other(stage: Stage, mechanism: str = _mechanism) -> None:
        """A user has a password for each mechanism."""
        user = add_user(stage, mechanism=SHA_512 if mechanism == SHA_256 else SHA_256)
        connect(stage)
        scram(stage, ScramMessages(user, mechanism=mechanism), mechanism, None)


def _changed(**attributes: object) -> Callable[[str], ScramMessages]:
    def make(user: str) -> ScramMessages:
        messages = ScramMessages(user)
        for name, value in attributes.items():
            setattr(messages, name, value)
        return messages

    return make


_EXCHANGES: dict[str, Callable[[str], ScramMessages]] = {
    "the user as authorization id": lambda user: _changed(header=f"n,a={user},")(user),
    "another authorization id": _changed(header="n,a=root,"),
    "the nonce of the client alone": _changed(final_nonce="abc"),
    "another nonce": _changed(final_nonce="abcdefghijkl"),
    "an extension": _changed(extensions=",x=y"),
    "an extension at the end": _changed(final_extensions=",x=y"),
    "an extension at the end that is not signed": _changed(
        final_extensions=",x=y", signs_final_extensions=False
    ),
    "a proof of zeros": _changed(proof=bytes(32)),
    "a token that does not exist": _changed(extensions=",tokenauth=true"),
    "no token": _changed(extensions=",tokenauth=false"),
    "a client that supports channel binding": _changed(header="y,,"),
    "an empty nonce": _changed(nonce=""),
}

for _what, _make in _EXCHANGES.items():

    @BOOK.play(f"SCRAM with {_what}", needs=_SCRAM, versions="2", source="KIP-84")
    def _exchange(stage: Stage, make: Callable[[str], ScramMessages] = _make) -> None:
        """An exchange with one change, and whether the connection serves afterwards."""
        user = add_user(stage)
        connect(stage)
        scram(stage, make(user))
        look_whether_open(stage)


_PROOFS = {"too short": b"short", "empty": b"", "too long": bytes(64)}

for _what, _proof in _PROOFS.items():

    @BOOK.play(f"a proof that is {_what}", needs=_SCRAM, versions="2", source="KIP-84")
    def _of_wrong_length(stage: Stage, proof: bytes = _proof) -> None:
        """The connection does not serve; Apache Kafka closes it without an answer."""
        messages = ScramMessages(add_user(stage))
        messages.proof = proof
        connect(stage)
        shake(stage, SHA_256)
        challenge = send_token(stage, messages.first(), None)
        name_nonce(stage, messages, challenge)
        request = SaslAuthenticateRequest(auth_bytes=messages.final(challenge))
        is_refused = True
        with suppress(PreparationFailed):
            is_refused = stage.do(request, by=RAW).error_code != 0
        stage.note("is refused", is_refused)
        look_whether_open(stage)


_FIRST_MESSAGES = {
    "that needs channel binding": b"p=tls-unique,,n=carol,r=abc",
    "that is no text": b"\xff\0garbage",
    "without a header": b"n=carol,r=abc",
    "without a nonce": b"n,,n=carol",
    "without a user": b"n,,r=abc",
    "with an empty user": b"n,,n=,r=abc",
    "in the wrong order": b"n,,r=abc,n=carol",
    "with a wrong escape": b"n,,n=a=b,r=abc",
    "of no bytes": b"",
}

for _what, _message in _FIRST_MESSAGES.items():

    @BOOK.play(f"a first message {_what}", needs=_SCRAM, versions="0,2", source="KIP-84")
    def _first_message(stage: Stage, message: bytes = _message) -> None:
        """A first message of SCRAM that is refused."""
        connect(stage)
        shake(stage, SHA_256)
        send_token(stage, message, None)
        look_whether_open(stage)


_LAST_MESSAGES = {
    "that is no message": b"garbage",
    "of no bytes": b"",
    "without a proof": b"c=biws,r=abc",
    "with a proof that is no base64": b"c=biws,r=abc,p=!!!",
    "that repeats the first": b"n,,n=carol,r=abc",
}

for _what, _message in _LAST_MESSAGES.items():

    @BOOK.play(f"a last message {_what}", needs=_SCRAM, versions="2", source="KIP-84")
    def _last_message(stage: Stage, message: bytes = _message) -> None:
        """A last message of SCRAM that is refused."""
        user = add_user(stage)
        connect(stage)
        shake(stage, SHA_256)
        messages = ScramMessages(user)
        name_nonce(stage, messages, send_token(stage, messages.first(), None))
        send_token(stage, message, None)
        look_whether_open(stage)


@BOOK.play("a longer nonce in the last message", needs=_SCRAM, versions="2", source="KIP-84")
def _longer(stage: Stage) -> None:
    """The nonce must be the one of the broker."""
    user = add_user(stage)
    connect(stage)
    shake(stage, SHA_256)
    messages = ScramMessages(user)
    challenge = send_token(stage, messages.first(), None)
    name_nonce(stage, messages, challenge)
    messages.final_nonce = challenge.decode().partition(",")[0].removeprefix("r=") + "x"
    send_token(stage, messages.final(challenge), None)


@BOOK.play("a last message of another connection", needs=_SCRAM, versions="2", source="KIP-84")
def _replayed(stage: Stage) -> None:
    """What one connection has proven proves nothing on another."""
    user = add_user(stage)
    for name in (RAW, "again"):
        connect(stage, name)
        shake(stage, SHA_256, by=name)
    messages = ScramMessages(user)
    challenge = send_token(stage, messages.first(), None)
    name_nonce(stage, messages, challenge)
    final = messages.final(challenge)
    send_token(stage, final, None)
    name_signature(stage, messages)
    name_nonce(stage, messages, send_token(stage, messages.first(), None, by="again"))
    send_token(stage, final, None, by="again")


@BOOK.play("a bare exchange of SCRAM", needs=_SCRAM, versions="2", source="KIP-84")
def _bare_scram(stage: Stage) -> None:
    """After a handshake of version 0 the messages are frames of their own."""
    user = add_user(stage)
    connect(stage)
    shake(stage, SHA_256, 0)
    messages = ScramMessages(user)

    def bare(sent: bytes) -> bytes:
        found = stage.exchange(len(sent).to_bytes(4, "big") + sent, by=RAW, logs_in=False)
        return b"" if isinstance(found, str) else found

    stage.note("has a proof", bare(messages.final(bare(messages.first()))).startswith(b"v="))
    look_whether_open(stage)


@BOOK.play("a changed password", needs=_SCRAM, versions="2", source="KIP-554")
def _change(stage: Stage) -> None:
    """The old password no longer serves; connections that were made with it go on."""
    user = add_user(stage)
    look_whether_open(stage, "user")
    # Both brokers and clients see when there is a password for the other mechanism, too.
    alter(stage, deletions=[Deletion(name=user, mechanism=1)])
    await_mechanism(stage, user, SHA_256, is_there=False)
    set_password(stage, user, password="another")  # noqa: S106
    for password in (PASSWORD, "another"):
        connect(stage)
        scram(stage, ScramMessages(user, password))
        look_whether_open(stage)
    look_whether_open(stage, "user")


@BOOK.play("a deleted password", needs=_SCRAM, versions="2", source="KIP-554")
def _delete(stage: Stage) -> None:
    """A user without a password is unknown; connections that were made before go on."""
    user = add_user(stage)
    look_whether_open(stage, "user")
    alter(stage, deletions=[Deletion(name=user, mechanism=1)])
    await_mechanism(stage, user, SHA_256, is_there=False)
    connect(stage)
    scram(stage, ScramMessages(user))
    look_whether_open(stage, "user")


@BOOK.play("a deleted password of two", needs=_SCRAM, versions="2", source="KIP-554")
def _delete_one(stage: Stage) -> None:
    """The password for the other mechanism still serves."""
    user = add_user(stage)
    set_password(stage, user, SHA_512)
    alter(stage, deletions=[Deletion(name=user, mechanism=1)])
    await_mechanism(stage, user, SHA_256, is_there=False)
    for mechanism in (SHA_256, SHA_512):
        connect(stage)
        scram(stage, ScramMessages(user, mechanism=mechanism), mechanism)
        look_whether_open(stage)


@BOOK.play("a user with a comma and an equals sign", needs=_SCRAM, versions="2", source="KIP-84")
def _escapes(stage: Stage) -> None:
    """In messages of SCRAM these are escaped."""
    user = stage.name("a,b=c")
    set_password(stage, user)
    connect(stage)
    scram(stage, ScramMessages(user.replace("=", "=3D").replace(",", "=2C")))
    look_whether_open(stage)
