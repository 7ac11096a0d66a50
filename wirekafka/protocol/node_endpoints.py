"""The current leader and its address, which responses add to leadership errors (KIP-951)."""

from __future__ import annotations

from wirekafka.codec.message import Int32, Part, String, field


class NodeEndpoint(Part):
    """A broker's id, address and rack, as in the schemas of the responses."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)
