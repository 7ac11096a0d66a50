"""The `quorum-state` file: the newest epoch a controller knows, and its vote (KIP-595)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.log.files import Disk
from wirekafka.replication.raft.messages import NO_DIRECTORY, NO_NODE, ReplicaKey

FILE_NAME = "quorum-state"
_STATIC, _DYNAMIC = 0, 1


class BadQuorumState(UnusableDirectory):
    """A `quorum-state` file that cannot be parsed."""


@dataclass(frozen=True)
class QuorumState:
    """The contents of the file.

    `voters` is None if the voters are in the log (KIP-853). `voted` is the candidate that got this
    node's vote in the epoch; its directory is known only in a file without voters.
    """

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...] | None
    voted: ReplicaKey | None = None

    def write(self, disk: Disk, directory: str) -> None:
        """Replace the file atomically and sync it. Raises OSError."""
        fields: dict[str, object] = {
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": NO_NODE if self.voted is None else self.voted.id,
        }
        if self.voters is None:
            directory_id = NO_DIRECTORY if self.voted is None else self.voted.directory_id
            fields["votedDirectoryId"] = _text(directory_id)
            fields["data_version"] = _DYNAMIC
        else:
            fields = {
                "clusterId": "",
                **fields,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
                "data_version": _STATIC,
            }
        text = json.dumps(fields, separators=(",", ":"))
        disk.write_atomic(f"{directory}/{FILE_NAME}", text.encode())

    @classmethod
    def read(cls, disk: Disk, directory: str) -> QuorumState | None:
        """Read the file; None if there is none. Raises `BadQuorumState`, OSError."""
        path = f"{directory}/{FILE_NAME}"
        if not disk.exists(path):
            return None
        try:
            fields = json.loads(disk.read(path))
            voters = fields.get("currentVoters")
            return cls(
                leader_id=fields["leaderId"],
                leader_epoch=fields["leaderEpoch"],
                voters=voters and tuple(voter["voterId"] for voter in voters),
                voted=_voted(fields),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadQuorumState(f"{path} is not a quorum state: {error!r}") from error


def _voted(fields: dict[str, Any]) -> ReplicaKey | None:
    if fields.get("votedId", NO_NODE) < 0:
        return None
    text = fields.get("votedDirectoryId")
    directory_id = base64.urlsafe_b64decode(f"{text}==") if text else NO_DIRECTORY
    if len(directory_id) != len(NO_DIRECTORY):
        raise ValueError(f"votedDirectoryId is {text!r}")
    return ReplicaKey(fields["votedId"], directory_id)


def _text(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")
