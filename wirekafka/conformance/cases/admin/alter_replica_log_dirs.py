"""AlterReplicaLogDirs: replicas move between the directories of a broker."""

from __future__ import annotations

from typing import Any

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.admin.describe_log_dirs import directory_of
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest

BOOK = Book(AlterReplicaLogDirsRequest, "administration", ConformanceLevel.ADMIN, "KIP-113")

_NOWHERE = "/no/such/directory"


def _move(*moves: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    part = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    return AlterReplicaLogDirsRequest(
        dirs=[
            part(path=path, topics=[part.AlterReplicaLogDirTopic(name=name, partitions=partitions)])
            for path, name, partitions in moves
        ]
    )


_MOVES: dict[str, Any] = {
    "to a missing directory": lambda n, d, missing: [(_NOWHERE, n, [0])],
    "to a path that is not absolute": lambda n, d, missing: [("no/such/directory", n, [0])],
    "to an empty path": lambda n, d, missing: [("", n, [0])],
    "to where it is": lambda n, d, missing: [(d, n, [0])],
    "a missing topic": lambda n, d, missing: [(d, missing, [0])],
    "a missing partition": lambda n, d, missing: [(d, n, [9])],
    "a missing topic to a missing directory": lambda n, d, missing: [(_NOWHERE, missing, [0])],
    "a partition and a missing partition": lambda n, d, missing: [(d, n, [0, 9])],
    "to two missing directories": lambda n, d, missing: [(_NOWHERE, n, [0]), ("/nor/this", n, [0])],
    "no partitions": lambda n, d, missing: [(d, n, [])],
    "no directories": lambda n, d, missing: [],
    "a bad name": lambda n, d, missing: [(d, "a b", [0])],
}
for _what, _moves in _MOVES.items():

    @BOOK.play(_what)
    def _moved(stage: Stage, make: Any = _moves) -> None:
        name = stage.create()
        stage.ask(_move(*make(name, directory_of(stage, name), stage.missing)))
