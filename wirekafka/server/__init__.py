"""Runs a broker on an event loop: sockets, connections, background tasks and the wall clock.

Belongs here: listeners and connections, the pipeline from a frame to its response, the start and
stop order of a node, timers, and work that leaves the event loop (fsync, compaction, recovery).
Does not belong here: the meaning of a request (`apis`), the storage of records (`log`), and
decisions of coordinators and the controller, which are pure state machines. Rooms: `connections`,
`tls`, `peers` (other brokers), `controllers` (the way to the quorum), `background` (housekeeping,
compaction, recovery), `tiering` (tiered storage) and `monitoring`. Together with `testing` and
`cli`, this is the only package that may use asyncio freely.
"""
