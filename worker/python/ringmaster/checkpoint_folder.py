"""The folder of a job's checkpoints, on a volume that all its workers share. This module contains
functions on files and starts no threads.

    <term>.<epoch>-<step>/state.pt    a dict of plain values and tensors, as torch.load(weights_only=True) reads it
    <term>.<epoch>-<step>/DONE        "0 <bytes> <checksum of state.pt>"; present if the checkpoint is complete
    .writing-…, .removing-…           folders in progress, or leftovers of a process that died

The layout and its rules are the same as in worker/trainer/checkpoint/checkpoint_folder.h: a checkpoint is written under
a temporary name and then renamed, and a writer removes only folders that are older than a complete checkpoint that it
wrote.
"""

import contextlib
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from .errors import Unavailable, UserError
from .state import StateVersion
from .world import Epoch

_log = logging.getLogger("ringmaster")

STATE_FILE = "state.pt"
DONE_FILE = "DONE"
_WRITING, _REMOVING = ".writing-", ".removing-"
_FOLDER_MODE = 0o775  # the volume's group may write there
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_NAME = re.compile(rf"{_NUMBER}\.{_NUMBER}-{_NUMBER}")
_DONE = re.compile(rf"0 {_NUMBER} ([0-9a-f]{{16}})\n")
_SLICE_BYTES, _SYNC_BYTES = 8 << 20, 32 << 20
_NEVER = (NotADirectoryError, FileExistsError)


class Damaged(Exception):
    """Raised if the content of a checkpoint differs from what was written."""


class Complete(Exception):
    """Raised if a complete checkpoint of this version already exists."""


def name_of(version: StateVersion) -> str:
    return f"{version.epoch.term}.{version.epoch.number}-{version.step}"


def version_in(name: str) -> StateVersion | None:
    """Returns the version in the name of a checkpoint's folder, or None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    term, number, step = (int(text) for text in match.groups())
    return StateVersion(Epoch(term, number), step)


def _version_of_leftover(name: str) -> StateVersion | None:
    for prefix in (_WRITING, _REMOVING):
        if name.startswith(prefix):
            return version_in(name[len(prefix) :].split("~")[0])
    return None


@dataclass(frozen=True)
class Draft:
    """A checkpoint that is being written."""

    version: StateVersion
    aside: Path
    nbytes: int
    checksum: str  # checksum of the file's bytes, 16 hexadecimal digits

    def done(self) -> str:
        return f"0 {self.nbytes} {self.checksum}\n"


class Folder:
    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.written = 0  # bytes that save() has written, which show that the volume takes data

    def make(self) -> None:
        """Creates the folder. Raises UserError if it can never be created, and Unavailable if it cannot be created,
        read or written now."""
        try:
            for folder in [*reversed(self.path.parents), self.path]:
                if not folder.is_dir():
                    with contextlib.suppress(FileExistsError):
                        folder.mkdir()
                        folder.chmod(_FOLDER_MODE)
            if not self.path.is_dir():
                raise NotADirectoryError(20, os.strerror(20))
            if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(13, os.strerror(13))
        except OSError as error:
            kind = UserError if isinstance(error, _NEVER) else Unavailable
            raise kind(
                f"cannot use the checkpoint folder {self.path}: {error.strerror}; mount a volume that all workers "
                "share and this user may write to"
            ) from error

    def path_of(self, version: StateVersion) -> Path:
        return self.path / name_of(version)

    def is_complete(self, version: StateVersion) -> bool:
        return self.completed_at(version) is not None

    def completed_at(self, version: StateVersion) -> float | None:
        """Returns when the checkpoint was completed, in seconds by the volume's clock, or None if it is not complete.
        Raises Unavailable if the file cannot be read now."""
        done = self.path_of(version) / DONE_FILE
        with _reading(done):
            try:
                return done.stat().st_mtime
            except FileNotFoundError:
                return None

    def complete(self) -> list[StateVersion]:
        """Returns the complete checkpoints, newest first. Raises Unavailable if the folder cannot be read now."""
        with _reading(self.path):
            names = os.listdir(self.path)
        versions = [version for name in names if (version := version_in(name)) and not (self.path / name).is_symlink()]
        return sorted((version for version in versions if self.is_complete(version)), reverse=True)

    def bytes_of_newest(self, keep: int) -> int:
        return sum(self._read_done(version)[0] for version in self.complete()[:keep])

    def _read_done(self, version: StateVersion) -> tuple[int, str]:
        done = self.path_of(version) / DONE_FILE
        with _reading(done):
            try:
                text = done.read_bytes().decode(errors="replace")
            except FileNotFoundError:
                raise Damaged(f"{done} is missing") from None
        match = _DONE.fullmatch(text)
        if match is None:
            raise Damaged(f"{done} does not describe a checkpoint of a Python program")
        return int(match[1]), match[2]

    def load(self, version: StateVersion) -> dict[str, Any]:
        """Returns the content that was passed to save(). Raises Damaged, which names the problem, or Unavailable if the
        content cannot be read now."""
        nbytes, checksum = self._read_done(version)
        path = self.path_of(version) / STATE_FILE
        with _reading(path):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                raise Damaged(f"{path} is missing") from None
            with file:
                digest, size = _digest(), 0
                while block := file.read(1 << 20):
                    digest.update(block)
                    size += len(block)
                if (size, digest.hexdigest()) != (nbytes, checksum):
                    raise Damaged(f"{path} does not have the {nbytes} bytes that were written")
                file.seek(0)
                try:
                    return torch.load(file, map_location="cpu", weights_only=True)
                except OSError:
                    raise
                except Exception as error:
                    raise Damaged(f"{path} cannot be read by torch {torch.__version__}: {error}") from error

    def save(self, version: StateVersion, content: dict[str, Any], stop: threading.Event) -> Draft:
        """Writes a checkpoint under a temporary name. Raises Complete if the checkpoint already exists, and Unavailable
        if it cannot be written or `stop` was set."""
        if self.is_complete(version):
            raise Complete
        self.make()
        self._remove_leftovers(version)  # now, because they may take the space that this checkpoint needs
        aside = self.path / f"{_WRITING}{name_of(version)}~{secrets.token_hex(8)}"
        path = aside / STATE_FILE
        try:
            with _writing(path):
                aside.mkdir()
                aside.chmod(_FOLDER_MODE)
                with path.open("xb") as file:
                    sink = _Sink(self._counting(file), stop)
                    try:
                        torch.save(content, sink)
                    except RuntimeError as error:  # torch raises it if a write failed
                        raise sink.error or error from error
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return Draft(version, aside, sink.size, sink.digest.hexdigest())

    def _counting(self, file: BinaryIO) -> Callable[[memoryview], None]:
        """Returns a function that writes to `file` and counts the bytes. It syncs the file at intervals, so that the
        count follows what the volume has taken and not what is in memory."""
        unsynced = 0

        def write(data: memoryview) -> None:
            nonlocal unsynced
            file.write(data)
            unsynced += len(data)
            if unsynced >= _SYNC_BYTES:
                os.fdatasync(file.fileno())
                unsynced = 0
            self.written += len(data)

        return write

    def publish(self, draft: Draft) -> None:
        """Renames a checkpoint to its final name. The caller must have the launcher's grant. If a complete checkpoint
        has that name, keeps it and raises Complete."""
        home = self.path_of(draft.version)
        with _writing(home):
            with (draft.aside / DONE_FILE).open("x") as file:
                file.write(draft.done())
                file.flush()
                os.fsync(file.fileno())
            _sync(draft.aside)
            try:
                draft.aside.rename(home)
            except OSError:
                if self.is_complete(draft.version):
                    raise Complete from None
                self._remove(home.name)  # from a program that died: it has no DONE
                draft.aside.rename(home)
            _sync(self.path)

    def discard(self, draft: Draft) -> None:
        self._remove(draft.aside.name)

    def retain(self, own: StateVersion, keep: int) -> None:
        """Removes folders that are older than this rank's complete checkpoint `own`: complete checkpoints beyond the
        newest `keep`, and leftovers."""
        self._remove_leftovers(own)
        kept = set(self.complete()[: max(1, keep)])
        for name in os.listdir(self.path):
            version = version_in(name)
            if version is not None and version < own and version not in kept:
                self._remove(name)

    def _remove_leftovers(self, own: StateVersion) -> None:
        """Removes what writers of checkpoints older than `own` left when they died."""
        for name in os.listdir(self.path):
            version = _version_of_leftover(name)
            if version is not None and version < own:
                self._remove(name)

    def _remove(self, name: str) -> None:
        target = self.path / name
        try:
            # A partly removed folder must not look like a checkpoint, and its writer, which may be alive, must not
            # publish it.
            if not name.startswith(_REMOVING):
                aside = self.path / f"{_REMOVING}{name.removeprefix(_WRITING)}~{secrets.token_hex(8)}"
                target.rename(aside)
                target = aside
            shutil.rmtree(target)
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("Failed to remove an old checkpoint: %s", error)


def below(volume: str, path: str, refuse: Callable[[str], UserError]) -> Path:
    """Returns the folder at `path` below the volume, without following links. Raises Unavailable if it cannot be read
    now."""
    found = Path(volume)
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." or path.startswith("/"):
            raise refuse("name a folder below the volume, such as digits/1.1-500")
        found /= part
        with _reading(found):
            try:
                mode = found.lstat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                raise refuse(f"there is no {found}") from None
        if stat.S_ISLNK(mode):
            raise refuse(f"{found} is a link; name its target")
        if not stat.S_ISDIR(mode):
            raise refuse(f"{found} is not a folder")
    return found


class _Sink:
    """A file for torch.save that counts bytes, computes the checksum, and can be stopped."""

    def __init__(self, write: Callable[[memoryview], None], stop: threading.Event):
        self._write = write
        self._stop = stop
        self.digest = _digest()
        self.size = 0
        self.error: Exception | None = None

    def write(self, data: Any) -> int:
        """Writes `data`, which may be a whole tensor, in slices, so that the count of bytes follows the volume."""
        view = memoryview(data)
        for begin in range(0, len(view), _SLICE_BYTES):
            piece = view[begin : begin + _SLICE_BYTES]
            try:
                if self._stop.is_set():
                    raise Unavailable("the checkpoint was abandoned")
                self._write(piece)
            except Exception as error:
                self.error = error
                raise
            self.digest.update(piece)
        self.size += len(view)
        return len(view)

    def flush(self) -> None:
        pass


def _digest() -> "hashlib._Hash":
    return hashlib.blake2b(digest_size=8)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _doing(what: str, path: Path):
    try:
        yield
    except OSError as error:
        raise Unavailable(f"cannot {what} {path}: {error.strerror or error}") from error


def _reading(path: Path) -> contextlib.AbstractContextManager[None]:
    return _doing("read", path)


def _writing(path: Path) -> contextlib.AbstractContextManager[None]:
    return _doing("write", path)
