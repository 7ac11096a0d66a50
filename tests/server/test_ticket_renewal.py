"""Kerberos tickets of a cache are renewed before they expire, with stand-ins for MIT's programs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually_async
from tests.security.test_kerberos_login import KEYTAB, Library
from tests.server.test_peer_security import between_brokers, settings
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.sources import Sources
from wirekafka.security.jaas import LoginModule
from wirekafka.security.sasl.gssapi_client import KerberosLogin
from wirekafka.server.peers.ticket_renewal import TicketRenewal

_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_PREFIX = "listener.name.inside.gssapi."


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


@pytest.fixture
def kinit(tmp_path: Path) -> Path:
    """A program that notes its arguments in `calls`, and fails if there is a file `broken`."""
    program = tmp_path / "kinit"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f"[ -e {tmp_path}/broken ] && echo no renewable ticket >&2 && exit 1\nexit 0\n"
    )
    program.chmod(0o700)
    return program


def login(**options: str) -> KerberosLogin:
    return KerberosLogin.of(LoginModule("Krb5LoginModule", options), "kafka")


def renewal(kerberos: KerberosLogin, **options: str) -> TicketRenewal:
    named = {f"sasl.kerberos.{name.replace('_', '.')}": text for name, text in options.items()}
    return TicketRenewal(BrokerConfig.of(named), kerberos)


def test_tickets_are_renewed_after_a_share_of_their_lifetime(library: Library) -> None:
    kerberos = login(useTicketCache="true")
    exact = renewal(kerberos, ticket_renew_jitter="0")
    assert exact.pause_s(36_000) == 28_800
    assert exact.pause_s(10) == 60, "not more often than sasl.kerberos.min.time.before.relogin"
    assert exact.pause_s(float("inf")) == 86_400
    pauses = {renewal(kerberos).pause_s(36_000) for _ in range(20)}
    assert len(pauses) > 1
    assert all(28_800 <= pause_s <= 30_600 for pause_s in pauses)


def test_the_lifetime_is_that_of_the_tickets_in_the_cache(library: Library) -> None:
    kerberos = login(useTicketCache="true")
    library.lifetime_s = 3600
    assert kerberos.left_s() == 3600
    library.lifetime_s = None
    assert kerberos.left_s() == float("inf")
    library.has_tickets = False
    assert kerberos.left_s() == 0


def test_the_command_renews_the_cache_of_the_login_module(
    library: Library, kinit: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewal(login(useTicketCache="true"), kinit_cmd=str(kinit)).renew()
    renewal(login(useTicketCache="true", ticketCache="/c"), kinit_cmd=str(kinit)).renew()
    assert (tmp_path / "calls").read_text().splitlines() == ["-R", "-R -c FILE:/c"]
    assert not caplog.text


def test_a_renewal_that_fails_is_logged(
    library: Library, kinit: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken").touch()
    renewal(login(useTicketCache="true"), kinit_cmd=str(kinit)).renew()
    assert "tickets were not renewed" in caplog.text
    assert "no renewable ticket" in caplog.text
    renewal(login(useTicketCache="true"), kinit_cmd=str(tmp_path / "absent")).renew()
    assert "No such file or directory" in caplog.text


def test_a_command_that_was_set_at_run_time_is_not_run(library: Library, kinit: Path) -> None:
    sources = Sources.of({}).with_dynamic({"sasl.kerberos.kinit.cmd": str(kinit)}, {})
    config = BrokerConfig(sources)
    assert config.sasl_kerberos_kinit_cmd == str(kinit)
    assert TicketRenewal(config, login(useTicketCache="true"))._command[0] == "/usr/bin/kinit"


@pytest.mark.parametrize("uses_cache", [True, False])
def test_only_tickets_of_a_cache_are_renewed_from_the_first_login_on(
    library: Library, kinit: Path, tmp_path: Path, uses_cache: bool
) -> None:
    module = (
        "useTicketCache=true"
        if uses_cache
        else " ".join(f'{name}="{text}"' for name, text in KEYTAB.items())
    )
    library.lifetime_s = 0
    security = between_brokers(
        {
            **settings("SASL_PLAINTEXT", "GSSAPI"),
            f"{_PREFIX}sasl.jaas.config": f"{_MODULE} required {module};",
            f"{_PREFIX}sasl.kerberos.kinit.cmd": str(kinit),
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.min.time.before.relogin": 5,
        }
    )

    async def log_in() -> None:
        exchange = await security.new_login(0, "b")
        assert exchange.first() == b"ticket"
        await security.new_login(0, "b")
        assert (len(asyncio.all_tasks()) > 1) == uses_cache
        calls = tmp_path / "calls"
        if uses_cache:
            await eventually_async(
                lambda: calls.exists() and len(calls.read_text().splitlines()) >= 2
            )

    asyncio.run(log_in())
    assert (tmp_path / "calls").exists() == uses_cache
