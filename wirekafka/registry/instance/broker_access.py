"""Who may do what: users log in with passwords of the brokers, and the brokers' ACLs decide.

A subject belongs to a topic by the naming strategy: `TOPIC-value` and `TOPIC-key` to TOPIC, any
other to a topic of its own name. The broker is asked over a connection of the user, so that its
authorizer decides, whatever it is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request

from wirekafka.bounded_memory import Remembered
from wirekafka.client.client import CliError, LoginRefused
from wirekafka.client.credentials import MECHANISMS, with_credentials
from wirekafka.client.pool import ClientPool
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.protocol.authorized_operations import NOT_REQUESTED
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.registry.access import RegistryOperation
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.names import CLIENT_ID
from wirekafka.security.acl import Operation

logger = logging.getLogger(__name__)

_USER_CLIENT_ID = f"{CLIENT_ID}-user"
LOGIN_S = 60.0
"""How long a password is not checked again; the connections of a user last no longer either."""
PERMISSION_S = 3.0
"""How long an answer of the authorizer is used: a change of ACLs takes effect after it."""
MOST_FAILURES, FAILURES_S = 20, 60.0
"""The failed logins of one address, and the time in which they count."""
_MOST_LOGINS, _MOST_ADDRESSES = 200, 2_000
_TOPICS_BYTES = 128 << 10
_TOPICS_AT_ONCE = 2_000
_MOST_AT_ONCE = 8
_LARGEST_HEADER_BYTES = 4_096
_READ = Operation.READ, Operation.DESCRIBE

_OF_SUBJECT = {
    RegistryOperation.SUBJECT_READ: _READ,
    RegistryOperation.SCHEMA_READ: _READ,
    RegistryOperation.SUBJECT_COMPATIBILITY_READ: _READ,
    RegistryOperation.SUBJECT_WRITE: (Operation.WRITE,),
    RegistryOperation.SUBJECT_DELETE: (Operation.DELETE,),
    RegistryOperation.SUBJECT_COMPATIBILITY_WRITE: (Operation.ALTER_CONFIGS,),
}
"""The operations on the topic of which one is needed."""
_FOR_EVERY_USER = frozenset(
    {RegistryOperation.GLOBAL_COMPATIBILITY_READ, RegistryOperation.GLOBAL_SUBJECTS_READ}
)
_SUFFIXES = ("-value", "-key")

T = TypeVar("T")


def topic_of(subject: str) -> str:
    """The topic of a subject, which may have a context in front."""
    if subject.startswith(":."):
        subject = subject[2:].partition(":")[2]
    for suffix in _SUFFIXES:
        if subject.endswith(suffix) and subject != suffix:
            return subject.removesuffix(suffix)
    return subject


def require_passwords(config: ClientConfig) -> None:
    """Raise CliError if no user could log in by a name and a password."""
    if config.logs_in and config.sasl_mechanism not in MECHANISMS:
        raise CliError(
            "users of the registry log in by a name and a password: sasl.mechanism has to be one of"
            f" {', '.join(MECHANISMS)}, not {config.sasl_mechanism}"
        )


@dataclass(slots=True)
class _Login:
    pool: ClientPool
    ends_s: float
    topics: Remembered[str, tuple[int, float]] = field(
        default_factory=lambda: Remembered(_TOPICS_BYTES)
    )
    """Allowed operations as bits, and until when they are used."""
    cluster: tuple[int, float] = (0, 0.0)


class BrokerAccess:
    """Checks passwords and permissions at the brokers; call it on one event loop."""

    def __init__(
        self, bootstrap: str, config: ClientConfig, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._bootstrap, self._config, self._now_s = bootstrap, config, now_s
        self._secret = secrets.token_bytes(32)
        self._logins: OrderedDict[bytes, _Login] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Future[_Login]] = {}
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="schemas-access")

    def close(self) -> None:
        """End all connections."""
        for login in self._logins.values():
            login.pool.close()
        self._logins.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def authenticate(self, request: Request) -> None:
        """Raise RegistryError 401 unless the user may log in, 429 after too many failures."""
        await self._login(request)

    async def authorize(
        self, request: Request, operation: RegistryOperation, subject: str | None
    ) -> None:
        """Raise RegistryError 401, or 403, unless the user may do it."""
        login = await self._login(request)
        if operation in _FOR_EVERY_USER:
            return
        wanted = _OF_SUBJECT.get(operation)
        if wanted is None or not subject:
            if not _has(await self._cluster_operations(login), Operation.ALTER):
                raise _denied(operation, "the cluster")
            return
        allowed = await self._topic_operations(login, topic_of(subject))
        if not any(_has(allowed, each) for each in wanted):
            raise _denied(operation, f"Subject: {subject}")

    async def readable(self, request: Request, subjects: Collection[str]) -> Collection[str]:
        """The subjects that the user may read, asked for in few requests."""
        login = await self._login(request)
        topics = sorted({topic_of(subject) for subject in subjects})
        allowed: dict[str, int] = {}
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            allowed |= await self._operations_of(login, topics[start : start + _TOPICS_AT_ONCE])
        return {
            subject
            for subject in subjects
            if any(_has(allowed.get(topic_of(subject), 0), each) for each in _READ)
        }

    async def _login(self, request: Request) -> _Login:
        user, password = _credentials(request)
        key = hmac.digest(self._secret, f"{user}\0{password}".encode(), hashlib.sha256)
        login = self._logins.get(key)
        if login is not None and self._now_s() < login.ends_s:
            self._logins.move_to_end(key)
            return login
        address = request.client.host if request.client else ""
        self._require_few_failures(address)
        under_way = self._under_way.get(key)
        if under_way is None:
            # Counted before it fails, so that many at once are not more than one after the other.
            self._note_failure(address)
            under_way = asyncio.ensure_future(self._logged_in(key, user, password))
            self._under_way[key] = under_way
            under_way.add_done_callback(lambda _: self._under_way.pop(key, None))
        try:
            login = await asyncio.shield(under_way)
        except LoginRefused as error:
            logger.info("A login to the schema registry as %r from %s: %s", user, address, error)
            raise _unauthorized() from None
        except (CliError, ConfigError) as error:
            raise _not_asked(error) from None
        self._failures.pop(address, None)
        return login

    async def _logged_in(self, key: bytes, user: str, password: str) -> _Login:
        def log_in() -> ClientPool:
            config = with_credentials(self._config, user, password, "the request")
            pool = ClientPool(self._bootstrap, config, _USER_CLIENT_ID)
            with pool.client() as client:
                client.any()
            return pool

        pool = await self._in_thread(log_in)
        login = _Login(pool, self._now_s() + LOGIN_S)
        replaced = self._logins.pop(key, None)
        self._logins[key] = login
        ended = [] if replaced is None else [replaced]
        while len(self._logins) > _MOST_LOGINS:
            ended.append(self._logins.popitem(last=False)[1])
        for each in ended:
            each.pool.close()
        return login

    async def _topic_operations(self, login: _Login, topic: str) -> int:
        known = login.topics.get(topic)
        if known is not None and self._now_s() < known[1]:
            return known[0]

        allowed = (await self._operations_of(login, [topic])).get(topic, 0)
        login.topics.keep(topic, (allowed, self._now_s() + PERMISSION_S))
        return allowed

    async def _operations_of(self, login: _Login, topics: Sequence[str]) -> dict[str, int]:
        def ask() -> dict[str, int]:
            request = MetadataRequest(
                topics=[MetadataRequest.Topic(name=topic) for topic in topics],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )
            with login.pool.client() as client:
                found = client.send(request, MetadataResponse).topics
            return {each.name or "": each.topic_authorized_operations for each in found}

        return await self._asked(ask)

    async def _cluster_operations(self, login: _Login) -> int:
        if self._now_s() < login.cluster[1]:
            return login.cluster[0]

        def ask() -> int:
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            with login.pool.client() as client:
                response = client.send(request, DescribeClusterResponse)
            return response.cluster_authorized_operations

        allowed = await self._asked(ask)
        login.cluster = (allowed, self._now_s() + PERMISSION_S)
        return allowed

    async def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return await self._in_thread(ask)
        except LoginRefused:
            raise _unauthorized() from None
        except (CliError, ConfigError) as error:
            raise _not_asked(error) from None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _require_few_failures(self, address: str) -> None:
        since_s = self._now_s() - FAILURES_S
        recent = [each for each in self._failures.get(address, ()) if each > since_s]
        if len(recent) >= MOST_FAILURES:
            raise RegistryError(429, 429, "Too many failed logins from this address")

    def _note_failure(self, address: str) -> None:
        times = self._failures.setdefault(address, [])
        times.append(self._now_s())
        del times[:-MOST_FAILURES]
        self._failures.move_to_end(address)
        while len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)


def _credentials(request: Request) -> tuple[str, str]:
    """The name and the password of HTTP Basic. Raises RegistryError."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _LARGEST_HEADER_BYTES:
        raise _unauthorized()
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _unauthorized() from None
    user, colon, password = text.partition(":")
    if not colon or not user or not text.isprintable():
        raise _unauthorized()
    return user, password


def _has(operations: int, operation: Operation) -> bool:
    return operations != NOT_REQUESTED and bool(operations >> operation & 1)


def _unauthorized() -> RegistryError:
    return RegistryError(401, 401, "Unauthorized")


def _denied(operation: RegistryOperation, where: str) -> RegistryError:
    name = operation.value.rpartition("_")[2].capitalize()
    return RegistryError(403, 40301, f"User is denied operation {name} on {where}")


def _not_asked(error: Exception) -> RegistryError:
    logger.warning("The brokers cannot be asked for a user's permissions: %s", error)
    return RegistryError(500, 50001, "The brokers cannot be asked for the user's permissions")
