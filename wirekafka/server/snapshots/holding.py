"""Reports an instant to one connection, and keeps the files of that instant until it is closed."""

from __future__ import annotations

import asyncio
import logging

from wirekafka.broker import Broker
from wirekafka.server.snapshots.noting import Noted, Unavailable
from wirekafka.snapshot.instant import refusal_line

logger = logging.getLogger(__name__)

_LINES_PER_TURN = 50
_LONGEST_H = 12
_LONGEST_S = _LONGEST_H * 3600
"""A command that was suspended must not fill the disk; a snapshot that goes on finds it out."""


async def report(
    broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Note the broker's logs, send them, and keep their files until the peer closes.

    While files are kept nothing is deleted, and no compacted segment replaces others. Whoever has
    the connection links or copies the files: it can read them, as it can open the socket.
    """
    broker.disk.holds += 1
    try:
        try:
            noted = Noted(broker)
        except Unavailable as error:
            writer.write(refusal_line(str(error)))
            return
        for number, line in enumerate(noted.lines()):
            writer.write(line)
            if number % _LINES_PER_TURN == 0:
                await writer.drain()
                await asyncio.sleep(0)
        await writer.drain()
        async with asyncio.timeout(_LONGEST_S):
            await reader.read()
    except TimeoutError:
        logger.error("A snapshot takes files since %d hours: they are kept no longer", _LONGEST_H)
    finally:
        broker.disk.holds -= 1
    logger.info(
        "A snapshot has the logs as they were at %d, the event loop was held for %d µs",
        noted.instant.at_ms,
        noted.instant.held_us,
    )
