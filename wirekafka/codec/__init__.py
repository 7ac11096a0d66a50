"""Kafka's wire formats: protocol messages, frames, record batches, compression.

Here belong: the message DSL and the compiler that turns a schema into straight-line decode and
encode functions per version, headers of batches, records, varints, checksums, and the compression
codecs, each with bounds on what malformed input can cost.

Not here: the schemas of single APIs (one file each in `apis`) and of the records of internal
topics (`coordinator`, `metadata`, `log.control_records`), and checks that depend on a topic's
configuration (`log.validate`). Nothing here does I/O.
"""
