"""The log of a partition on disk, in Apache Kafka's file formats.

Here belong: segments and their indexes, appending and reading, validation of appended batches,
producer states, leader epochs, retention, compaction, recovery, the log directory with its
checkpoints, and the file system interface (`files`, the only module that calls `os`).

Not here: replication and the high watermark (`replication`), the meaning of records of internal
topics (`coordinator`, `metadata`), the layout of batches and records (`codec`), and when retention,
compaction and flushes run (`server`). Nothing here reads a clock, or uses asyncio or sockets.
"""
