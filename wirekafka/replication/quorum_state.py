"""The `quorum-state` file: which epoch a controller has seen, and how it voted (KIP-595)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from wirekafka.log.files import Disk
from wirekafka.log.log_directory import UnusableDirectory

FILE_NAME = "quorum-state"
_STATIC, _DYNAMIC = 0, 1
_NO_DIRECTORY = bytes(16)


class BadQuorumState(UnusableDirectory):
    """A `quorum-state` that cannot be understood."""


@dataclass(frozen=True)
class QuorumState:
    """`voters` is None where the voters are kept in the log instead (KIP-853)."""

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...] | None

    def write(self, disk: Disk, directory: str) -> None:
        """Replace the file, to last through a crash."""
        fields: dict[str, object] = {
            "leaderId": self.leader_id, "leaderEpoch": self.leader_epoch, "votedId": -1}
        if self.voters is None:
            fields["votedDirectoryId"] = _text(_NO_DIRECTORY)
            fields["data_version"] = _DYNAMIC
        else:
            fields = {"clusterId": "", **fields, "appliedOffset": 0,
                      "currentVoters": [{"voterId": voter} for voter in self.voters],
                      "data_version": _STATIC}
        text = json.dumps(fields, separators=(",", ":"))
        disk.write_atomic(f"{directory}/{FILE_NAME}", text.encode())

    @classmethod
    def read(cls, disk: Disk, directory: str) -> QuorumState | None:
        """None if there is no file. Raises `BadQuorumState`."""
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
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadQuorumState(f"{path} is not a quorum state: {error!r}") from error


def _text(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")
