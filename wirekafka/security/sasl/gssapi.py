"""SASL/GSSAPI: Kerberos tickets (RFC 4752), by python-gssapi (the extra `wirekafka[gssapi]`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.exchange import AuthenticationFailed, Challenge, Step, Success
from wirekafka.security.sasl.kerberos_names import NameRules, NoShortName

NO_LAYER = bytes((1, 0, 0, 0))
"""The offer of security layers: none, so that the maximal size is 0."""


class KerberosUnavailable(Exception):
    """Why clients cannot log in with Kerberos, without any secret."""


class Gssapi:
    """The service's credentials from a keytab, and the rules for user names."""

    def __init__(self, credentials: Any, rules: NameRules):
        self._credentials = credentials
        self._rules = rules

    @classmethod
    def of(cls, module: LoginModule, rules: Sequence[str]) -> Gssapi:
        """Load the `principal` from the `keyTab` of a login module. Raises KerberosUnavailable."""
        options = {name.lower(): value for name, value in module.options.items()}
        keytab, principal = options.get("keytab"), options.get("principal")
        if not keytab or not principal or options.get("usekeytab", "").lower() != "true":
            raise KerberosUnavailable("needs useKeyTab=true, keyTab and principal")
        gssapi = library()
        try:
            name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            credentials = gssapi.Credentials(
                name=name, usage="accept", store={"keytab": f"FILE:{keytab}"}
            )
            realm = str(name.canonicalize(gssapi.MechType.kerberos)).rpartition("@")[2]
            return cls(credentials, NameRules(rules, realm))
        except gssapi.exceptions.GSSError as error:
            raise KerberosUnavailable(error.maj_code and error.gen_message()) from None
        except ValueError as error:
            raise KerberosUnavailable(str(error)) from None

    def start(self) -> GssapiExchange:
        return GssapiExchange(self._credentials, self._rules)


class GssapiExchange:
    """One Kerberos authentication: tickets first, then the agreement on no security layer."""

    def __init__(self, credentials: Any, rules: NameRules):
        self._gssapi = library()
        self._context = self._gssapi.SecurityContext(creds=credentials, usage="accept")
        self._rules = rules
        self._has_offered = False

    def respond(self, token: bytes, now_ms: int) -> Step:
        """Answer the client's next token. Raises AuthenticationFailed."""
        try:
            if self._has_offered:
                return self._accept(self._context.unwrap(token).message)
            if not self._context.complete:
                answer = self._context.step(token)
                if answer or not self._context.complete:
                    return Challenge(answer or b"")
            self._has_offered = True
            return Challenge(self._context.wrap(NO_LAYER, False).message)
        except self._gssapi.exceptions.GSSError as error:
            raise AuthenticationFailed(f"GSS failure {error.maj_code}/{error.min_code}") from None

    def _accept(self, message: bytes) -> Success:
        """Check the client's choice of security layer and its authorization id."""
        if len(message) < len(NO_LAYER) or message[0] != NO_LAYER[0]:
            raise AuthenticationFailed("a security layer that was not offered")
        name = str(self._context.initiator_name)
        try:
            authorization_id = message[len(NO_LAYER) :].decode()
            user = self._rules.short_name(name)
        except (UnicodeDecodeError, NoShortName):
            raise AuthenticationFailed("a name that no rule makes a user name") from None
        if authorization_id not in ("", name):
            raise AuthenticationFailed("another authorization id than the ticket's name")
        return Success(b"", user)


def library() -> Any:
    try:
        import gssapi
    except ImportError:
        raise KerberosUnavailable("needs python-gssapi: pip install 'wirekafka[gssapi]'") from None
    return gssapi
