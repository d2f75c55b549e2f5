"""The audit log of a rank, from which ringmaster-audit proves that no step was lost or repeated.

worker/trainer/telemetry/audit_log.h documents the lines. Each line is a JSON object and is written with a single call.
"""

import json
import logging
import os

from .errors import UserError
from .world import Epoch, World

_log = logging.getLogger("ringmaster")

_ENDING = ".jsonl"
_ORIGINS = {"checkpoint": "checkpoint", "other": "checkpoint", "snapshot": "snapshot"}


class AuditLog:
    """The log of this rank. Not thread-safe. If a line cannot be written, logs one warning and writes no more lines;
    training continues."""

    def __init__(self, path: str = "") -> None:
        """`path` is a file *.jsonl, or a folder in which the file is named after the member; "" disables the log."""
        self._path = path
        self._file = -1

    @classmethod
    def open(cls) -> "AuditLog":
        """Creates the folder of the log at the path in RINGMASTER_AUDIT_LOG and returns the log. Raises UserError if
        the log is not writable."""
        path = os.environ.get("RINGMASTER_AUDIT_LOG", "")
        if path and not path.endswith(_ENDING):
            why = "cannot write into it"
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                why = os.strerror(error.errno or 0)
            if not (os.path.isdir(path) and os.access(path, os.W_OK)):
                raise UserError(
                    f"cannot open the folder of the audit log, {path}: {why}; set "
                    "RINGMASTER_AUDIT_LOG to a folder that this user may write to"
                )
        return cls(path)

    @property
    def on(self) -> bool:
        return self._path != ""

    def entered(
        self, world: World, global_batch: int, adopted_epoch: Epoch, adopted_step: int, origin: str, checksum: int
    ) -> None:
        """Logs that the rank entered `world` with the state after `adopted_step`.

        `adopted_epoch` is an epoch of this run, or has term 0 if another run computed the state. `origin` is the origin
        of the rank's `LocalState`. `checksum` is the 64-bit checksum of the state.
        """
        if not self.on:
            return
        if self._file < 0:
            self._open_file(world)
        adopted = {"epoch": list(adopted_epoch), "step": adopted_step}
        if origin in _ORIGINS:
            adopted["from"] = _ORIGINS[origin]
        line = {
            "term": world.epoch.term,
            "number": world.epoch.number,
            "rank": world.rank,
            "size": world.size,
            "global_batch": global_batch,
            "members": [member.name for member in world.members],
            "adopted": adopted,
            "checksum": f"{checksum:016x}",
        }
        self._write(json.dumps({"world": line}, separators=(",", ":"), ensure_ascii=False))

    def begun(self, world: World, step: int, begin: int, end: int) -> None:
        """Logs the start of a step. Call it before this rank sends any gradient of the samples [begin, end)."""
        if self.on:
            self._write(f'{{"begun":{{{_step_fields(world, step, begin, end)}}}}}')

    def applied(self, world: World, step: int, begin: int, end: int, checksum: int) -> None:
        """Logs an applied step. Call it after the update. `checksum` is the 64-bit checksum of the state."""
        if self.on:
            self._write(f'{{{_step_fields(world, step, begin, end)},"checksum":"{checksum:016x}"}}')

    def _open_file(self, world: World) -> None:
        path = self._path
        if not path.endswith(_ENDING):
            path = os.path.join(path, world.me.name.replace("/", "-") + _ENDING)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            self._end("opening", str(error))

    def _write(self, line: str) -> None:
        if self._file < 0:
            return
        data = line.encode() + b"\n"
        try:
            if os.write(self._file, data) != len(data):
                self._end("writing", "a line was truncated")
        except OSError as error:
            self._end("writing", str(error))

    def _end(self, doing: str, reason: str) -> None:
        _log.warning(
            "Failed to write the audit log while %s %s: %s. Further steps cannot be audited", doing, self._path, reason
        )
        if self._file >= 0:
            os.close(self._file)
        self._path, self._file = "", -1


def _step_fields(world: World, step: int, begin: int, end: int) -> str:
    term, number = world.epoch
    return f'"step":{step},"epoch":[{term},{number}],"rank":{world.rank},"samples":[{begin},{end}]'
