"""Endpoints of the nodes of a metadata quorum, in requests and responses among them."""

from __future__ import annotations

from wirekafka.codec.message import Int32, Part, String, UInt16


class LeaderEndpoint(Part):
    """One of a controller's own listeners, by name."""

    name: String
    host: String
    port: UInt16


class QuorumNodeEndpoint(Part):
    """The address of a controller at the listener on which the request was received."""

    node_id: Int32
    host: String
    port: UInt16
