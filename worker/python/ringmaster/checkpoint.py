"""Saves the training state on a volume and finds it again.

The keeper copies the state on the training thread and returns. A separate thread writes the copy, asks the launcher to
grant it, renames it and removes old checkpoints. Training never waits for the disk. checkpoint_folder.py documents the
files. The reference of spec.checkpoint documents the variables RINGMASTER_CHECKPOINT_*.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .checkpoint_content import copied, version_of, what_differs
from .checkpoint_folder import Complete, Damaged, Draft, Folder, below, version_in
from .errors import PeerLost, RingmasterError, Unavailable, UserError
from .state import LocalState, StateVersion, first_difference
from .world import KeptCheckpoint, Membership

_log = logging.getLogger("ringmaster")

FORMAT = 1
_EVERY, _KEEP = 500, 3  # defaults
_CLOSE_WITHIN = 2.0  # seconds


@dataclass(frozen=True)
class Restored:
    held: LocalState  # its origin is "checkpoint", or "other" if the checkpoint is of another job
    state: dict[str, Any]  # "model", "optimizer" and "extras", as passed to take(), on the CPU
    text: str  # a message about the checkpoint for the user, or ""


@dataclass(frozen=True)
class _Task:
    held: LocalState
    content: dict[str, Any]
    protects: str  # "checkpoint", or "restore" if the job cannot start before the checkpoint is written


class Keeper:
    """Writes and finds checkpoints. For use by one thread. The writing thread ends with close() or with the process. An
    incomplete checkpoint never looks complete."""

    def __init__(self, membership: Membership, settings: str, volume: str):
        self._membership = membership
        self._settings = settings
        self._volume = volume
        variable = os.environ.get
        in_job = variable("RINGMASTER_AGENT_SOCKET") is not None
        self._namespace = variable("RINGMASTER_NAMESPACE", "") if in_job else ""
        self._name = variable("RINGMASTER_JOB_NAME", "") if in_job else ""
        self._uid = variable("RINGMASTER_JOB_UID", "") if in_job else ""
        self._from_job = variable("RINGMASTER_CHECKPOINT_RESTORE_JOB", "")
        self._from_path = variable("RINGMASTER_CHECKPOINT_RESTORE_PATH", "")
        self._every = _number("RINGMASTER_CHECKPOINT_EVERY") or _EVERY
        self._keep = _number("RINGMASTER_CHECKPOINT_KEEP") or _KEEP
        own = os.path.join(volume, self._namespace, self._name, self._uid) if self._uid else volume
        self._folder = Folder(own)
        self._damaged: dict[Path, str] = {}  # checkpoints that cannot be used, and why
        self._text = ""
        self._text_of = StateVersion()
        self._restored = self._offered = StateVersion()  # checkpoints that are not written again
        self._late = False
        self._skipped = False

        self._changed = threading.Condition()
        self._task: _Task | None = None  # guarded by _changed, like the next field
        self._completed = StateVersion()
        self._stop = threading.Event()
        self._failing = ""  # what is unprotected; used by the thread
        self.awaits_grant = False  # True: a checkpoint is written and waits for the launcher; set by the thread
        self._thread = threading.Thread(target=self._run, name="ringmaster-checkpoint", daemon=True)

    @staticmethod
    def open(membership: Membership, settings: str) -> "Keeper | None":
        """Returns None without RINGMASTER_CHECKPOINT_DIR. Raises UserError if the folder can never be created.

        `settings` are lines "name=value" that affect training. A checkpoint with other settings is used, and the job
        reports the differences.
        """
        volume = os.environ.get("RINGMASTER_CHECKPOINT_DIR", "")
        if not volume:
            return None
        keeper = Keeper(membership, settings, volume)
        try:
            keeper._folder.make()
        except Unavailable as error:  # restore() and the writer report it again
            _log.warning("%s", error)
        keeper._thread.start()
        return keeper

    # --- finding a checkpoint

    def restore(self, held: LocalState, model: Mapping[str, torch.Tensor] | None = None) -> Restored | None:
        """Returns the latest complete checkpoint that is newer than `held`, or None.

        Looks for checkpoints of this job. If there are none and `held` is the initial state, looks for the checkpoints
        that restoreFrom names. `model` is the current state_dict(). Raises Unavailable if the folder cannot be read
        now, and UserError if there are checkpoints but none can be used (another model, a newer format, all damaged, or
        not the requested one).
        """
        self._folder.make()
        above = StateVersion() if held.origin == "other" else held.version
        found = self._newest(self._folder, above, model)
        if found is not None:
            restored = self._take_over(*found, "checkpoint")
            self._restored = restored.held.version
            return restored
        if held.version != StateVersion():
            return None
        if self._from_job or self._from_path:
            return self._restore_other(model)
        self._note_namesakes()
        return None

    def beginning(self, held: LocalState) -> tuple[str, KeptCheckpoint | None]:
        """Returns the message for a start of training with `held`, and the job's newest checkpoint not above `held`."""
        return (self._text if self._text_of == held.version else ""), self._newest_kept(held.version)

    def _newest(self, folder: Folder, above: StateVersion,
                model: Mapping[str, torch.Tensor] | None) -> tuple[Folder, dict[str, Any]] | None:
        passed_over = []
        for version in folder.complete():
            path = folder.path_of(version)
            if version <= above:
                break
            if path in self._damaged:
                if above == StateVersion():
                    passed_over.append(self._damaged[path])
                continue
            try:
                content = self._load(folder, version, model)
            except Damaged as error:
                if folder.is_complete(version):  # it was not removed in the meantime
                    self._damaged[path] = str(error)
                    passed_over.append(str(error))
                continue
            _warn_of(passed_over, str(path))
            return folder, content
        if passed_over and above == StateVersion():
            raise UserError(f"all {len(passed_over)} complete checkpoints in {folder.path} are damaged; the latest one because "
                            f"{passed_over[0]}; restore a copy, or empty the folder to start from the first step")
        _warn_of(passed_over, "what it has")
        return None

    def _load(self, folder: Folder, version: StateVersion, model: Mapping[str, torch.Tensor] | None) -> dict[str, Any]:
        content = folder.load(version)
        path = folder.path_of(version)
        if not isinstance(content, dict) or not isinstance(content.get("format"), int):
            raise Damaged(f"{path} holds no checkpoint")
        if content["format"] > FORMAT:
            raise UserError(f"{path} has format {content['format']}, but this release reads up to {FORMAT}; use the newer one")
        if version_of(content) != version or not isinstance(content.get("model"), dict):
            raise Damaged(f"{path} contains a checkpoint that does not match its name")
        if model is not None and (differs := first_difference(content["model"], model)):
            raise UserError(f"{path} belongs to another model: {differs}; restore it with the model that wrote it")
        return content

    def _take_over(self, folder: Folder, content: dict[str, Any], origin: str) -> Restored:
        version = version_of(content)
        same_run = self._uid != "" and content.get("run") == self._uid
        base = content["version"]["term_base"] if same_run else version.epoch.term
        path = folder.path_of(version)
        differs = what_differs(content.get("settings", ""), self._settings)
        texts = [f"it started from step {version.step} of {path}"] if origin == "other" else []
        if differs:
            texts.append(f"its state was trained with {differs}")
        self._text, self._text_of = "; ".join(texts), version
        _log.info("Loaded step %d of %s%s", version.step, path, f", trained with {differs}" if differs else "")
        state = {part: content.get(part, {}) for part in ("model", "optimizer", "extras")}
        return Restored(LocalState(version, base, origin), state, self._text)

    def _restore_other(self, model: Mapping[str, torch.Tensor] | None) -> Restored:
        if self._from_job:
            folder = self._of_job(self._from_job)
            if folder is None:
                raise self._not_restorable(
                    f"no other job of this name in namespace {self._namespace} has a complete checkpoint on the "
                    "volume; correct the name or remove restoreFrom to start from the first step")
        else:
            path = below(self._volume, self._from_path, self._not_restorable)
            version = version_in(path.name)
            if version is not None:
                folder = Folder(path.parent)
                if not folder.is_complete(version):
                    raise self._not_restorable(f"{path} is not a complete checkpoint")
                try:
                    return self._take_over(folder, self._load(folder, version, model), "other")
                except Damaged as error:
                    raise self._not_restorable(str(error)) from error
            folder = Folder(path)
            if not folder.complete():
                raise self._not_restorable(f"{path} has no complete checkpoint")
        found = self._newest(folder, StateVersion(), model)
        if found is None:
            raise Unavailable(f"{folder.path} changed while it was read")
        return self._take_over(*found, "other")

    def _of_job(self, name: str) -> Folder | None:
        """Returns the folder of another job with this name in this namespace. If there are several such jobs, selects
        the job whose newest checkpoint was completed last."""
        folder = os.path.join(self._volume, self._namespace, name)
        try:
            uids = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read {folder}: {error.strerror}") from error
        found, newest = None, -1.0
        for uid in uids:
            other = Folder(os.path.join(folder, uid))
            if name == self._name and uid == self._uid:
                continue
            complete = other.complete()
            when = other.completed_at(complete[0]) if complete else None
            if when is not None and when >= newest:
                found, newest = other, when
        return found

    def _not_restorable(self, why: str) -> UserError:
        what = f"job {self._from_job}" if self._from_job else f"path {self._from_path}"
        return UserError(f"cannot start from the checkpoint of {what} (spec.checkpoint.restoreFrom): {why}")

    def _note_namesakes(self) -> None:
        """Reports how to resume from the checkpoints of an earlier job of the same name. A new job does not start from
        them."""
        other = self._of_job(self._name) if self._uid else None
        complete = [] if other is None else other.complete()
        if other is None or not complete:
            return
        self._text_of = StateVersion()
        self._text = (
            "it started from its first step although an earlier job of the same name has checkpoints up to step "
            f"{complete[0].step} ({other.path}); to resume from them, apply the job with spec.checkpoint.restoreFrom: "
            f"{{job: {self._name}}}"
        )

    def _newest_kept(self, up_to: StateVersion) -> KeptCheckpoint | None:
        try:
            for version in self._folder.complete():
                when = self._folder.completed_at(version)
                if version <= up_to and self._folder.path_of(version) not in self._damaged and when is not None:
                    age = max(0, int(1000 * (time.time() - when)))
                    return KeptCheckpoint(version.step, self._bytes_kept(), age)
        except Unavailable:
            pass
        return None

    def _bytes_kept(self) -> int:
        try:
            return self._folder.bytes_of_newest(self._keep)
        except (Damaged, Unavailable):
            return 0

    # --- writing checkpoints

    def due(self, step: int) -> bool:
        """Returns whether rank 0 should take() the state of this committed step."""
        return step > 0 and (step % self._every == 0 or self._late)

    def take(self, held: LocalState, make_state: Callable[[], dict[str, Any]], wait_s: float = 0.0) -> bool:
        """Copies the state of a committed step and starts writing it. Returns False if the previous checkpoint is
        still being written.

        `make_state` returns "model", "optimizer" and "extras", whose tensors this call copies. `wait_s` is the time to
        wait for the previous checkpoint; 0: skip this one. Raises UserError if a checkpoint cannot contain one of the
        values.
        """
        return self._offer(held, make_state, wait_s, "checkpoint")

    def keep_other(self, held: LocalState, make_state: Callable[[], dict[str, Any]]) -> bool:
        """Saves the state of another job, from which this job starts, as a checkpoint of this job. Rank 0 calls
        this function until it returns True."""
        with self._changed:
            if self._completed == held.version:
                return True
        self._offer(held, make_state, 0.0, "restore")
        return False

    def wait(self, timeout: float) -> bool:
        """Waits for the writer and returns whether it became idle within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._task is None, timeout)

    def written(self) -> int:
        """Returns the number of bytes that have been written so far."""
        return self._folder.written

    def world_ended(self) -> None:
        """Call when a world has ended. A checkpoint in progress may be completed in the next world; a skipped
        checkpoint is not repeated."""
        self._late = False

    def close(self) -> None:
        """Abandons the checkpoint that is being written. If the volume hangs, the thread stays until the process ends."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_WITHIN)

    def _offer(self, held: LocalState, make_state: Callable[[], dict[str, Any]], wait_s: float, protects: str) -> bool:
        if held.version.step == 0 or held.version == self._restored:
            return True
        if held.version == self._offered and (protects != "restore" or not self.wait(0)):
            return True
        if not self.wait(wait_s):
            self._late = True
            if not self._skipped and not wait_s:
                self._skipped = True
                _log.warning("Skipped the checkpoint of step %d because the previous one is still being written; "
                             "increase the interval or use a faster volume", held.version.step)
            return False
        epoch, step = held.version
        content = {
            "format": FORMAT,
            "run": self._uid,
            "version": {"term": epoch.term, "number": epoch.number, "step": step, "term_base": held.term_base},
            **copied(make_state()),
            "settings": self._settings,
        }
        self._late, self._offered = False, held.version
        with self._changed:
            self._task = _Task(held, content, protects)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._task is not None or self._stop.is_set())
                task = self._task
            if task is None:
                return
            reason = ""
            try:
                self._write(task)
            except PeerLost:
                self._stop.set()
            except Exception as error:
                reason = str(error) if isinstance(error, RingmasterError) else f"{type(error).__name__}: {error}"
            if not self._stop.is_set():
                self._tell(reason, task.protects)
            with self._changed:
                if not reason and not self._stop.is_set():
                    self._completed = task.held.version
                self._task = None
                self._changed.notify_all()

    def _tell(self, reason: str, protects: str) -> None:
        """Reports the first failure and the recovery, because the job shows the failure until it is cleared."""
        if reason and not self._failing:
            _log.warning("Failed to write a checkpoint; training continues without new ones: %s", reason)
            self._failing = protects
            self._membership.unprotected(protects, reason)
        elif self._failing and not reason:
            self._membership.unprotected(self._failing, "")
            self._failing = ""

    def _write(self, task: _Task) -> None:
        version = task.held.version
        try:
            draft = self._folder.save(version, task.content, self._stop)
        except Complete:
            return
        try:
            self._await_grant(draft)
            self._folder.publish(draft)
        except BaseException as error:
            replaced = isinstance(error, Complete) or not draft.aside.exists()
            self._folder.discard(draft)
            if replaced:  # rank 0 of another world wrote the same state, or a newer one
                return
            raise
        _log.info("Completed the checkpoint %s: %d bytes", self._folder.path_of(version), draft.nbytes)
        self._membership.checkpoint_complete(version.step, self._bytes_kept())
        self._folder.retain(version, self._keep)

    def _await_grant(self, draft: Draft) -> None:
        self.awaits_grant = True
        try:
            self._membership.await_grant(draft.version.step, 0, draft.nbytes, draft.checksum, self._stop)
        finally:
            self.awaits_grant = False


def _warn_of(passed_over: list[str], instead: str) -> None:
    for reason in passed_over:
        _log.warning("Skipped a damaged checkpoint: %s. Using %s instead", reason, instead)


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() else 0
