"""Attacks a node by every API and version of a listener, as one principal, and checks it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.attacks.attacked_node import MOST_GROWTH_BYTES, MOST_HELD_S, AttackedNode
from tests.attacks.hostile_requests import Attack, Attacks
from tests.attacks.hostile_values import Values
from tests.attacks.secured import ATTACKERS, CLIENTS, CONTROLLERS, NONE
from tests.secret_search import LogSearch, SecretSearch, all_logs_searched
from wirekafka.apis.shared import registry, routes
from wirekafka.apis.shared.registry import Api
from wirekafka.config.version import VERSION

ROUTES = {CLIENTS: routes.BROKERS, CONTROLLERS: routes.CONTROLLERS}
_REPEATS = 3
"""How often a request must hold the event loop: now and then, Python collects garbage."""
_CHANGES_OPTIONS = frozenset({33, 44})
"""AlterConfigs and IncrementalAlterConfigs: the next API gets another node."""
_IN_FILES = ("of-a-record", "of-an-offset")
"""The secrets that files have: they were sent to be kept."""
_FLOOD_BYTES = 20 << 20
_MOST_CHARACTERS = 2_000
_NEWEST_SHARE = 4
"""The newest version of an API gets so many times the requests of an older one."""


@dataclass(frozen=True)
class Plan:
    """Who attacks which listener, with how many requests for each field of a version."""

    user: str
    listener: str
    seed: int = 0
    requests: int = 10
    flood_bytes: int = 0
    """How much each API is sent in names that are never repeated. None from users with rights: what
    they create is kept."""
    one_in: int = 1
    """Of older versions, options, crowds and floods, one in so many, others in each release."""

    def __str__(self) -> str:
        return f"{self.user} at {self.listener}, seed {self.seed}"

    def includes(self, attack: str) -> bool:
        """Whether an attack belongs to the part that is carried out."""
        return Random(f"{VERSION} {self} {attack}").randrange(self.one_in) == 0


@dataclass
class Report:
    """What the attacks of one plan did."""

    plan: Plan
    sent: int = 0
    closed: int = 0
    waiting: int = 0
    violations: list[str] = field(default_factory=list)
    longest_held_s: float = 0.0


def plans(seed: int = 0, requests: int = 10, one_in: int = 1) -> list[Plan]:
    """A plan for each principal and listener."""
    return [
        Plan(user, listener, seed, requests, _FLOOD_BYTES if user == NONE else 0, one_in)
        for listener in ROUTES
        for user in ATTACKERS
    ]


def apis(listener: str) -> list[Api]:
    """The APIs that a listener advertises."""
    registry.load()
    return list(ROUTES[listener].served())


def run(plan: Plan, keys: frozenset[int] | None = None) -> Report:
    """Carry out a plan, or the part of it that is about the APIs of these keys."""
    report = Report(plan)
    search = SecretSearch()
    with all_logs_searched(search) as logs:
        groups = [api for api in apis(plan.listener) if keys is None or api.key in keys]
        while groups:
            with TemporaryDirectory() as scratch:
                node = AttackedNode(Path(scratch), search, logs)
                try:
                    _attack_until_changed(node, groups, report, logs)
                finally:
                    node.close()
    return report


def _attack_until_changed(
    node: AttackedNode, groups: list[Api], report: Report, logs: LogSearch
) -> None:
    """Attack by one API after the other, up to one that may have changed the node's options."""
    while groups:
        api = groups.pop(0)
        group = _Group(node, api, report, logs)
        if not group.leaves_alive() or api.key in _CHANGES_OPTIONS:
            break
    for path, data in node.disk.files().items():
        found = node.search.excerpt(data)
        if found and not any(each in found for each in _IN_FILES):
            report.violations.append(f"a secret in the file {path}: {found}")


class _Group:
    """The attacks by one API, after which memory must be as before."""

    def __init__(self, node: AttackedNode, api: Api, report: Report, logs: LogSearch):
        self._node = node
        self._api = api
        self._report = report
        self._logs = logs
        self._connection = node.connect(report.plan.user, report.plan.listener)

    def leaves_alive(self) -> bool:
        """Send all attacks, and check what is left of them; whether new clients are served."""
        node, plan = self._node, self._report.plan
        random = Random(f"{plan} {self._api.key}")
        # Half of the groups also write Kafka's request log, which serves nothing from a cache.
        node.kafka.node.pipeline.hook = node.request_log if random.random() < 0.5 else None
        node.renew()
        before_bytes, protected = 0, node.protected(plan.user)
        for attack in self._attacks(random):
            self._carry_out(attack)
            # The first requests import and compile what stays.
            if not before_bytes:
                before_bytes = node.resident_bytes()
        if plan.flood_bytes and plan.includes(f"{self._api.name} flood"):
            self._flood(random)
        node.hang_up()
        node.pass_time()
        self._check_logs(f"{self._api.name}, afterwards")
        growth_bytes = node.resident_bytes() - before_bytes
        if growth_bytes > MOST_GROWTH_BYTES:
            self._found(f"{self._api.name}: {growth_bytes >> 20} MiB of memory are not freed")
        for name, value in node.protected(plan.user).items():
            if value != protected[name]:
                self._found(f"{self._api.name}: {name} were {protected[name]}, now {value}")
        fault = node.fault(plan.user, plan.listener)
        if fault:
            self._found(f"{self._api.name}: the node does not serve new clients: {fault}")
        return not fault

    def _flood(self, random: Random) -> None:
        """Send names that the node may remember, without a search in what it logs of them."""
        self._logs.is_paused = True
        self._node.kafka.node.pipeline.hook = None
        naming = max(self._by_version(random), key=lambda each: (each.names, each.version))
        for attack in naming.flood(self._report.plan.flood_bytes):
            self._carry_out(attack)
        self._logs.is_paused = False

    def _by_version(self, random: Random) -> list[Attacks]:
        values = Values(self._node.baits, self._node.topic_ids, self._node.cluster_id)
        request = self._api.request
        return [
            Attacks(random, values, request, version)
            for version in range(request.versions.first, request.versions.last + 1)
        ]

    def _attacks(self, random: Random) -> Iterator[Attack]:
        plan, name = self._report.plan, self._api.name
        made = self._by_version(random)
        for attacks in made:
            yield attacks.honest()
        for attacks in made:
            is_newest = attacks is made[-1]
            if not is_newest and not plan.includes(f"{name} version {attacks.version}"):
                continue
            requests = plan.requests * (_NEWEST_SHARE if is_newest else 1)
            yield from attacks.one_by_one(requests)
            yield from attacks.all_at_once(max(1, requests // 5))
        yield from made[-1].by_expression()
        for attack in chain(made[-1].by_option(), made[-1].crowded()):
            if plan.includes(attack.reason):
                yield attack

    def _carry_out(self, attack: Attack) -> None:
        node, report = self._node, self._report
        held_s = MOST_HELD_S + 1
        for _ in range(_REPEATS):
            if self._connection.is_closing():
                self._connection = node.connect(report.plan.user, report.plan.listener)
            hangs = node.hangs
            began = time.monotonic()
            outcome = node.send(self._connection, attack.payload)
            report.sent += 1
            report.closed += outcome.is_closed
            report.waiting += outcome.is_waiting
            held_s = min(held_s, outcome.held_s)
            self._check(attack, outcome.response)
            if node.hangs > hangs:
                self._found(f"{attack}: a thread waits for a file that never ends")
            if outcome.is_waiting:
                self._leave()
            elif not outcome.is_closed and not outcome.response and not _needs_no_answer(attack):
                self._found(f"{attack}: neither answered nor closed")
            if held_s < MOST_HELD_S or time.monotonic() - began > 2:
                break
        report.longest_held_s = max(report.longest_held_s, held_s)
        if held_s >= MOST_HELD_S:
            self._found(f"{attack}: the event loop was held for {held_s * 1000:.0f} ms")

    def _leave(self) -> None:
        connection = self._connection
        self._node.hang_up()
        if connection.protocol is not None:
            self._found("a waiting request is not forgotten with its connection")
        self._connection = self._node.connect(self._report.plan.user, self._report.plan.listener)

    def _check(self, attack: Attack, response: bytes) -> None:
        self._node.search.look(response, "the response")
        self._check_logs(str(attack))

    def _check_logs(self, when: str) -> None:
        for leak in self._node.search.leaks:
            self._found(f"{when}: {leak}")
        for traceback in self._logs.tracebacks:
            self._found(f"{when}: unexpected error: {traceback}")
        self._node.search.leaks.clear()
        self._logs.tracebacks.clear()

    def _found(self, violation: str) -> None:
        if len(violation) > _MOST_CHARACTERS:
            half = _MOST_CHARACTERS // 2
            violation = f"{violation[:half]} ... {violation[-half:]}"
        self._report.violations.append(f"{self._report.plan}: {violation}")


def _needs_no_answer(attack: Attack) -> bool:
    """Whether it is a Produce request, which may ask for no response."""
    return attack.request.key == 0
