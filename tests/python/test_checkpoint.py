"""Tests that the keeper of checkpoints finds the checkpoints that it has written."""

import contextlib
import os
import pathlib
import resource
import shutil
import tempfile
import threading
import time
import unittest
from collections import Counter
from unittest import mock

import torch

from ringmaster.alone import LoneMembership
from ringmaster.checkpoint import Keeper
from ringmaster.checkpoint_content import copied
from ringmaster.checkpoint_folder import Folder
from ringmaster.errors import Unavailable, UserError
from ringmaster.state import LocalState, StateVersion
from ringmaster.world import Epoch, World
from ringmaster.world_entry import WorldEntry

LIMIT = 60.0
START = LocalState()

class RecordingMembership(LoneMembership):
    """Grants each checkpoint at once, or only when the test sets `granted`."""

    def __init__(self):
        super().__init__()
        self.granted = threading.Event()
        self.granted.set()
        self.asked = []
        self.done = []
        self.faults = []

    def await_grant(self, step, shard, nbytes, checksum, stop):
        self.asked.append((step, shard, nbytes, checksum))
        while not self.granted.wait(0.01):
            if stop.is_set():
                raise Unavailable("stopped")

    def checkpoint_complete(self, step, nbytes):
        self.done.append((step, nbytes))

    def unprotected(self, what, reason):
        self.faults.append((what, reason))


def held(step, term=1, number=1, **rest):
    return LocalState(StateVersion(Epoch(term, number), step), **{"origin": "training", **rest})


class KeeperTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.volume = pathlib.Path(folder.name)
        self.membership = RecordingMembership()
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def open(self, settings="batch=8", **variables):
        variables = {f"RINGMASTER_{name}": str(value) for name, value in variables.items()}
        variables = {"RINGMASTER_CHECKPOINT_DIR": str(self.volume), **variables}
        with mock.patch.dict(os.environ, variables):
            keeper = Keeper.open(self.membership, settings)
        if keeper is not None:
            self.addCleanup(keeper.close)
        return keeper

    def open_job(self, uid="uid-1", name="digits", **rest):
        return self.open(AGENT_SOCKET="/s", NAMESPACE="team", JOB_NAME=name, JOB_UID=uid, **rest)

    def state(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "extras": {"schedule": {"epoch": 3, "losses": [0.5, None], "seen": Counter({7: 2})}},
        }

    def train(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(5, 3)).square().sum().backward()
        self.optimizer.step()

    def keep(self, keeper, *steps, **rest):
        for step in steps:
            self.assertTrue(keeper.take(held(step, **rest), self.state, wait_s=LIMIT))
        self.assertTrue(keeper.wait(LIMIT))

    def await_asked(self):
        deadline = time.monotonic() + LIMIT
        while not self.membership.asked and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(self.membership.asked)

    def names(self, folder=None):
        return sorted(os.listdir(folder or self.volume))

    # --- kept checkpoints are found

    def test_restores_what_was_kept_bit_for_bit(self):
        keeper = self.open()
        self.train()
        kept = copied(self.state())
        self.keep(keeper, 7, term_base=0)

        restored = self.open().restore(START, self.model.state_dict())

        self.assertEqual(restored.held, held(7, origin="checkpoint", term_base=1))
        self.assertEqual(restored.text, "")
        other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        other.load_state_dict(restored.state["model"])
        optimizer = torch.optim.AdamW(other.parameters())
        optimizer.load_state_dict(restored.state["optimizer"])
        for name, tensor in other.state_dict().items():
            self.assertTrue(torch.equal(tensor, kept["model"][name]), name)
        self.assertEqual(str(optimizer.state_dict()), str(kept["optimizer"]))
        self.assertEqual(restored.state["extras"], kept["extras"])

    def test_leftovers_are_removed_before_a_checkpoint_is_written(self):
        for name in (".writing-1.1-5~0a", ".removing-1.1-6~0b", ".writing-1.2-1~0c"):
            (self.volume / name).mkdir()
            (self.volume / name / "state.pt").write_bytes(b"x")
        stopped = threading.Event()
        stopped.set()  # the write fails
        with self.assertRaises(Unavailable):
            Folder(self.volume).save(StateVersion(Epoch(1, 1), 7), {"a": 1}, stopped)
        self.assertEqual(self.names(), [".writing-1.2-1~0c"])

    def test_a_draft_that_is_being_removed_is_never_published(self):
        folder = Folder(self.volume)
        stop = threading.Event()
        draft = folder.save(held(7).version, {"a": 1}, stop)
        remove = shutil.rmtree

        def remove_slowly(target):
            (pathlib.Path(target) / "state.pt").unlink()
            with contextlib.suppress(Unavailable):
                folder.publish(draft)
            remove(target)

        with mock.patch("shutil.rmtree", remove_slowly):
            Folder(self.volume).save(held(8).version, {"a": 1}, stop)
        (newer,) = self.names()
        self.assertTrue(newer.startswith(".writing-1.1-8~"))

    def test_what_was_left_while_it_was_removed_goes_too(self):
        folder = Folder(self.volume)
        stop = threading.Event()
        folder.save(held(7).version, {"a": 1}, stop)
        with mock.patch("shutil.rmtree", side_effect=OSError(5, "Input/output error")):
            with self.assertLogs("ringmaster", "WARNING"):
                folder.save(held(8).version, {"a": 1}, stop)
        (left, _) = self.names()
        self.assertTrue(left.startswith(".removing-1.1-7~"))
        folder.save(held(8).version, {"a": 1}, stop)
        self.assertNotIn(left, self.names())

    def test_a_newer_checkpoint_of_another_rank_is_no_failure_of_this_one(self):
        self.membership.granted.clear()
        keeper = self.open()
        self.assertTrue(keeper.take(held(7), self.state))
        self.await_asked()
        Folder(self.volume).save(StateVersion(Epoch(1, 2), 8), {"a": 1}, threading.Event())
        self.membership.granted.set()
        self.assertTrue(keeper.wait(LIMIT))
        self.assertEqual(self.membership.faults, [])
        self.assertEqual([name for name in self.names() if not name.startswith(".")], [])

    def test_a_user_opens_the_file_without_the_package(self):
        self.keep(self.open(), 7, term_base=3)
        content = torch.load(self.volume / "1.1-7" / "state.pt", weights_only=True)
        self.assertEqual(content["format"], 1)
        self.assertEqual(content["version"], {"term": 1, "number": 1, "step": 7, "term_base": 3})
        self.assertEqual(content["settings"], "batch=8")
        self.model.load_state_dict(content["model"])

    def test_the_copy_is_of_the_moment_and_tied_tensors_stay_one(self):
        weight = torch.ones(1000)
        self.membership.granted.clear()
        keeper = self.open()
        keeper.take(held(1), lambda: {"model": {"a": weight, "b": weight}, "optimizer": {}, "extras": {}})
        weight.zero_()
        self.membership.granted.set()
        keeper.wait(LIMIT)
        model = keeper.restore(START).state["model"]
        self.assertTrue(torch.equal(model["a"], torch.ones(1000)))
        self.assertEqual(model["a"].data_ptr(), model["b"].data_ptr())

    def test_the_newest_is_the_one_of_the_highest_epoch(self):
        keeper = self.open()
        self.keep(keeper, 9)
        self.keep(keeper, 4, number=2)
        self.assertEqual(keeper.restore(START).held.version, held(4, number=2).version)
        self.assertIsNone(keeper.restore(held(4, number=2)))

    def test_the_launcher_is_asked_and_told(self):
        keeper = self.open()
        self.keep(keeper, 1, 2)
        (step, shard, nbytes, checksum), _ = self.membership.asked
        self.assertEqual((step, shard, len(checksum)), (1, 0, 16))
        self.assertEqual((self.volume / "1.1-1" / "DONE").read_text(), f"0 {nbytes} {checksum}\n")
        self.assertEqual((self.volume / "1.1-1" / "state.pt").stat().st_size, nbytes)
        self.assertEqual(self.membership.done, [(1, nbytes), (2, 2 * nbytes)])
        self.assertEqual(self.membership.faults, [])

    def test_only_the_newest_are_kept_and_leftovers_go(self):
        (self.volume / ".writing-1.1-1~x").mkdir()
        (self.volume / "1.1-2").mkdir()
        (self.volume / "notes").mkdir()
        (self.volume / ".writing-1.1-99~x").mkdir()
        keeper = self.open(CHECKPOINT_KEEP=2)
        self.keep(keeper, 3, 4, 5)
        self.assertEqual(self.names(), [".writing-1.1-99~x", "1.1-4", "1.1-5", "notes"])

    # --- the last checkpoint is waited for while the volume takes data

    def save_large(self, stop, synced):
        """Saves a tensor that is larger than a slice, and calls `synced` with the count of bytes at each sync."""
        folder = Folder(self.volume)
        with (mock.patch("ringmaster.checkpoint_folder._SLICE_BYTES", 1000),
              mock.patch("ringmaster.checkpoint_folder._SYNC_BYTES", 4000),
              mock.patch("os.fdatasync", side_effect=lambda _: synced(folder.written))):
            draft = folder.save(held(7).version, {"w": torch.arange(20_000.0)}, stop)
        folder.publish(draft)
        return folder, draft

    def test_the_bytes_of_one_tensor_are_counted_as_the_volume_takes_them(self):
        counts = [0]
        folder, draft = self.save_large(threading.Event(), counts.append)
        self.assertLessEqual(max(b - a for a, b in zip(counts, counts[1:])), 5000)
        self.assertGreater(counts[-1], 75_000)
        self.assertEqual(folder.written, draft.nbytes)
        self.assertTrue(torch.equal(folder.load(draft.version)["w"], torch.arange(20_000.0)))

    def test_a_checkpoint_is_abandoned_within_one_tensor(self):
        stop = threading.Event()
        counts = []
        with self.assertRaises(Unavailable):
            self.save_large(stop, lambda count: (counts.append(count), stop.set()))
        self.assertEqual([count < 10_000 for count in counts], [True])
        self.assertEqual(self.names(), [])

    def test_a_keeper_says_while_it_waits_for_the_grant(self):
        self.membership.granted.clear()
        keeper = self.open()
        keeper.take(held(1), self.state)
        self.await_asked()
        self.assertTrue(keeper.awaits_grant)
        self.membership.granted.set()
        self.assertTrue(keeper.wait(LIMIT))
        self.assertFalse(keeper.awaits_grant)

    def test_a_volume_counts_as_stuck_only_while_something_is_written(self):
        for awaits_grant in (True, False):
            keeper = mock.Mock(awaits_grant=awaits_grant)
            keeper.wait.side_effect = [False] * 5 + [True]
            keeper.written.return_value = 7
            entry = WorldEntry(self.membership, mock.Mock(), "cpu", position=None, audit=None, keeper=keeper, settings="",
                               timeout=1, global_batch=1)
            entry.world = World(Epoch(1, 1), 0, ())
            with mock.patch("ringmaster.world_entry._STUCK", -1), mock.patch("ringmaster.world_entry._logger"):
                entry.keep_last()
            self.assertEqual(len(self.membership.faults), 0 if awaits_grant else 1)

    # --- when checkpoints are written

    def test_is_due_every_so_many_steps_and_after_one_that_was_skipped(self):
        keeper = self.open(CHECKPOINT_EVERY=10)
        self.assertEqual([step for step in range(31) if keeper.due(step)], [10, 20, 30])
        self.membership.granted.clear()
        self.assertTrue(keeper.take(held(10), self.state))
        with self.assertLogs("ringmaster", "WARNING"):
            self.assertFalse(keeper.take(held(20), self.state))
        self.assertTrue(keeper.due(21))
        self.membership.granted.set()
        self.keep(keeper, 21)
        self.assertFalse(keeper.due(22))
        self.assertEqual(self.names(), ["1.1-10", "1.1-21"])

    def test_what_is_one_already_is_not_written_again(self):
        self.keep(self.open(), 5)
        keeper = self.open()
        keeper.restore(START)
        self.keep(keeper, 5)
        self.keep(keeper, 6, 6)
        self.assertEqual([step for step, *_ in self.membership.asked], [5, 6])

    def test_without_a_grant_nothing_counts(self):
        self.membership.granted.clear()
        keeper = self.open()
        keeper.take(held(1), self.state)
        keeper.close()
        self.assertEqual(self.names(), [])
        self.assertEqual(self.membership.faults, [])

    def test_a_volume_that_hangs_does_not_keep_the_process(self):
        hangs, heals = threading.Event(), threading.Event()

        def hang(_):
            hangs.set()
            heals.wait()

        with mock.patch("os.fsync", hang), mock.patch("ringmaster.checkpoint._CLOSE_WITHIN", 0.01):
            keeper = self.open()
            self.addCleanup(heals.set)  # before the keeper is closed again
            keeper.take(held(1), self.state)
            self.assertTrue(hangs.wait(LIMIT))
            closing = threading.Thread(target=keeper.close, daemon=True)
            closing.start()
            closing.join(LIMIT)
            self.assertFalse(closing.is_alive())
            heals.set()
            self.assertTrue(keeper.wait(LIMIT))

    def test_there_is_none_without_a_folder(self):
        self.assertIsNone(self.open(CHECKPOINT_DIR=""))

    # --- checkpoints that cannot be used

    def test_a_damaged_one_is_passed_over_with_a_warning(self):
        keeper = self.open()
        self.keep(keeper, 1, 2, 3)
        with (self.volume / "1.1-3" / "state.pt").open("r+b") as file:
            file.seek(100)
            file.write(b"\xff\x00")
        (self.volume / "1.1-2" / "state.pt").unlink()
        with self.assertLogs("ringmaster", "WARNING") as logs:
            restored = self.open().restore(START)
        self.assertEqual(restored.held.version.step, 1)
        self.assertEqual(len(logs.output), 2)
        self.assertIn("1.1-3", logs.output[0])

    def test_all_damaged_is_refused(self):
        self.keep(self.open(), 1)
        os.truncate(self.volume / "1.1-1" / "state.pt", 10)
        with self.assertRaisesRegex(UserError, "damaged"):
            self.open().restore(START)

    def test_one_that_was_renamed_is_damaged(self):
        self.keep(self.open(), 1)
        (self.volume / "1.1-1").rename(self.volume / "1.1-8")
        with self.assertRaisesRegex(UserError, "not match its name"):
            self.open().restore(START)

    def test_another_model_is_refused_with_the_first_difference(self):
        self.keep(self.open(), 1)
        for other, said in (
            (torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5)), r"0\.weight has the shape \[4, 3\]"),
            (torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)), r"1\.weight has the shape"),
            (torch.nn.ModuleDict({"x": torch.nn.Linear(3, 4)}), r"no x\.weight"),
            (torch.nn.Sequential(torch.nn.Linear(3, 4)), r"has 1\.weight, which this model does not have"),
        ):
            with self.assertRaisesRegex(UserError, said):
                self.open().restore(START, other.state_dict())

    def test_a_newer_format_is_refused(self):
        with mock.patch("ringmaster.checkpoint.FORMAT", 2):
            self.keep(self.open(), 1)
        with self.assertRaisesRegex(UserError, "format 2"):
            self.open().restore(START)

    def test_other_settings_are_taken_up_and_said(self):
        self.keep(self.open("batch=8\nlr=1"), 1)
        keeper = self.open("batch=16\nseed=3")
        restored = keeper.restore(START)
        said = "batch=8 instead of 16, lr=1 instead of nothing, seed=nothing instead of 3"
        self.assertEqual(restored.text, f"its state was trained with {said}")
        text, kept = keeper.beginning(restored.held)
        self.assertEqual(text, restored.text)
        self.assertEqual(kept.step, 1)

    def test_a_folder_that_can_never_be_is_the_users_mistake(self):
        (self.volume / "file").touch()
        with self.assertRaisesRegex(UserError, "all workers share"):
            self.open(CHECKPOINT_DIR=self.volume / "file" / "below")

    def test_a_value_that_no_checkpoint_holds_is_the_users_mistake(self):
        with self.assertRaisesRegex(UserError, "extras: x.*_thread"):
            self.open().take(held(1), lambda: {"model": {}, "extras": {"x": threading.Lock()}})

    def test_what_cannot_be_written_is_told_until_it_can_be_again(self):
        keeper = self.open()
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertLogs("ringmaster", "WARNING"):
                self.keep(keeper, 1, 2)
        self.assertEqual(self.names(), [])
        self.keep(keeper, 3)
        (what, reason), cleared = self.membership.faults
        self.assertEqual(what, "checkpoint")
        self.assertIn("No space left", reason)
        self.assertEqual(cleared, ("checkpoint", ""))

    def test_a_volume_that_fills_up_while_torch_writes_is_named_as_the_reason(self):
        keeper = self.open()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        big = {"model": {"w": torch.zeros(100_000)}, "optimizer": {}, "extras": {}}
        with self.assertLogs("ringmaster", "WARNING"):
            keeper.take(held(1), lambda: big)
            self.assertTrue(keeper.wait(LIMIT))
        self.assertIn("File too large", self.membership.faults[0][1])
        self.assertEqual(self.names(), [])

    def test_what_cannot_be_read_now_is_not_damaged(self):
        self.keep(self.open(), 1)
        keeper = self.open()
        with mock.patch("pathlib.Path.open", side_effect=OSError(5, "Input/output error")):
            with self.assertRaises(Unavailable):
                keeper.restore(START)
        self.assertEqual(keeper.restore(START).held.version.step, 1)

    # --- checkpoints of other jobs

    def test_a_job_has_its_own_and_counts_terms_within_itself(self):
        self.keep(self.open_job(), 3, term=5, term_base=4)
        self.assertEqual(self.names(self.volume / "team" / "digits" / "uid-1"), ["5.1-3"])
        self.assertEqual(self.open_job().restore(START).held, held(3, term=5, term_base=4, origin="checkpoint"))

    def test_a_job_of_the_same_name_begins_anew_and_says_so(self):
        self.keep(self.open_job(), 3)
        keeper = self.open_job("uid-2")
        self.assertIsNone(keeper.restore(START))
        self.assertIn("restoreFrom: {job: digits}", keeper.beginning(START)[0])

    def test_begins_with_another_jobs_newest_and_makes_it_its_own(self):
        self.keep(self.open_job("uid-1"), 3, term=5)
        keeper = self.open_job("uid-2", CHECKPOINT_RESTORE_JOB="digits")
        restored = keeper.restore(START)
        self.assertEqual(restored.held, held(3, term=5, term_base=5, origin="other"))
        self.assertIn("it started from step 3", restored.text)

        limit = time.monotonic() + LIMIT
        while not keeper.keep_other(restored.held, lambda: restored.state):
            self.assertLess(time.monotonic(), limit)
            keeper.wait(LIMIT)
        shutil.rmtree(self.volume / "team" / "digits" / "uid-1")
        again = self.open_job("uid-2", CHECKPOINT_RESTORE_JOB="digits").restore(START)
        self.assertEqual(again.held, held(3, term=5, term_base=5, origin="checkpoint"))

    def test_begins_with_a_folder_or_one_checkpoint_in_it(self):
        self.keep(self.open_job(), 3, 4)
        folder = "team/digits/uid-1"
        for path, step in ((folder, 4), (f"{folder}/1.1-3", 3)):
            keeper = self.open_job("uid-2", "other", CHECKPOINT_RESTORE_PATH=path)
            self.assertEqual(keeper.restore(START).held.version.step, step)
            self.assertIsNone(keeper.restore(held(1)))

    def test_what_is_named_and_not_there_is_the_users_mistake(self):
        (self.volume / "link").symlink_to("/")
        (self.volume / "empty").mkdir()
        for path in ("none", "../x", "/x", "link", "empty", "empty/1.1-3"):
            with self.assertRaisesRegex(UserError, "spec.checkpoint.restoreFrom"):
                self.open_job(CHECKPOINT_RESTORE_PATH=path).restore(START)
        with self.assertRaisesRegex(UserError, "job nobody"):
            self.open_job(CHECKPOINT_RESTORE_JOB="nobody").restore(START)


if __name__ == "__main__":
    unittest.main()
