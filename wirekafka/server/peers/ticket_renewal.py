"""Renews the Kerberos tickets of a cache before they expire, by which this node logs in."""

from __future__ import annotations

import asyncio
import logging
import random
import subprocess

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.options import BrokerOptions
from wirekafka.security.sasl.gssapi_client import KerberosLogin

logger = logging.getLogger(__name__)

_COMMAND_S = 30.0
_LONGEST_PAUSE_S = 86_400.0
_MOST_SHOWN = 200
_KINIT = "sasl.kerberos.kinit.cmd"


class TicketRenewal:
    """Runs `kinit -R` after a share of the tickets' lifetime; a keytab needs no renewal.

    Options: `sasl.kerberos.ticket.renew.*`, `sasl.kerberos.min.time.before.relogin`.
    """

    def __init__(self, config: BrokerConfig, login: KerberosLogin):
        """`config` is the configuration of the mechanism on this node's listener."""
        self._login = login
        self._factor = config.sasl_kerberos_ticket_renew_window_factor
        self._jitter = config.sasl_kerberos_ticket_renew_jitter
        self._least_s = config.sasl_kerberos_min_time_before_relogin / 1000
        sources = config.sources
        # Whoever may change options at run time must not choose a program that is run here.
        is_dynamic = sources.is_dynamic(_KINIT) or sources.is_dynamic(
            sources.configured_name(_KINIT)
        )
        kinit = (
            BrokerOptions.sasl_kerberos_kinit_cmd.default
            if is_dynamic
            else config.sasl_kerberos_kinit_cmd
        )
        self._command = login.renew_command(kinit)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Renew from now on, in the loop that runs, unless that has begun."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def pause_s(self, left_s: float) -> float:
        """How long to wait before tickets are renewed that last so long."""
        share = self._factor + self._jitter * random.random()  # noqa: S311
        return min(max(left_s * share, self._least_s), _LONGEST_PAUSE_S)

    def renew(self) -> None:
        """Run the command. A failure is logged: the tickets are used while they last."""
        try:
            ended = subprocess.run(  # noqa: S603
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMMAND_S,
                check=False,
            )
            reason = ended.stderr.strip()[:_MOST_SHOWN] or f"it ended with {ended.returncode}"
            is_renewed = ended.returncode == 0
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
            is_renewed = False
        if not is_renewed:
            logger.warning("Kerberos tickets were not renewed: %s -R: %s", self._command[0], reason)

    async def _run(self) -> None:
        while True:
            left_s = await asyncio.to_thread(self._login.left_s)
            await asyncio.sleep(self.pause_s(left_s))
            await asyncio.to_thread(self.renew)
