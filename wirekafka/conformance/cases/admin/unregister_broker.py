"""UnregisterBroker: of brokers that do not exist."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.protocol.unregister_broker import UnregisterBrokerRequest

BOOK = Book(UnregisterBrokerRequest, "administration", ConformanceLevel.ADMIN, "KIP-631")

BOOK.ask("a missing broker", lambda _: UnregisterBrokerRequest(broker_id=9999))
BOOK.ask("a negative broker", lambda _: UnregisterBrokerRequest(broker_id=-1))
