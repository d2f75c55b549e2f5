"""Tests that the audit log has the same lines as the C++ trainer's, and that training continues if the log cannot be written."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from ringmaster.audit_log import AuditLog
from ringmaster.errors import UserError
from ringmaster.world import Epoch, Member, World


def member(pod, slot, start):
    return Member(pod_uid=pod, pod=pod, node="n", address="10.0.0.1", slot=slot, start=start)


WORLD = World(Epoch(1, 2), 1, (member("w-0", 0, "a-1"), member("w-1", 3, 'q"\\-1')))
# The lines that AuditLog::Entered, Begun and Applied write.
ENTERED = (
    '{"world":{"term":1,"number":2,"rank":1,"size":2,"global_batch":64,'
    '"members":["w-0/0/a-1","w-1/3/q\\"\\\\-1"],"adopted":{"epoch":[1,1],"step":40%s},'
    '"checksum":"00000000000000ff"}}\n'
)
BEGUN = '{"begun":{"step":41,"epoch":[1,2],"rank":1,"samples":[32,64]}}\n'
APPLIED = '{"step":41,"epoch":[1,2],"rank":1,"samples":[32,64],"checksum":"ffffffffffffffff"}\n'


class AuditLogTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def open(self, path):
        with mock.patch.dict(os.environ, RINGMASTER_AUDIT_LOG=str(path)):
            return AuditLog.open()

    def enter(self, log, origin="training"):
        log.entered(WORLD, 64, Epoch(1, 1), 40, origin, 0xFF)

    def test_writes_the_lines_of_the_trainer_into_a_file_named_after_the_member(self):
        log = self.open(self.folder / "made" / "here")
        self.assertTrue(log.on)
        self.enter(log)
        log.begun(WORLD, 41, 32, 64)
        log.applied(WORLD, 41, 32, 64, (1 << 64) - 1)

        path = self.folder / "made" / "here" / 'w-1-3-q"\\-1.jsonl'
        self.assertEqual(path.read_text(), ENTERED % "" + BEGUN + APPLIED)

    def test_says_where_a_state_comes_from_that_no_rank_had(self):
        path = self.folder / "one.jsonl"
        log = self.open(path)
        names = {"start": "", "snapshot": "snapshot", "checkpoint": "checkpoint", "other": "checkpoint"}
        for origin in names:
            self.enter(log, origin)

        expected = [ENTERED % (f',"from":"{name}"' if name else "") for name in names.values()]
        self.assertEqual(path.read_text(), "".join(expected))

    def test_is_off_without_a_path(self):
        log = self.open("")
        self.assertFalse(log.on)
        self.enter(log)
        log.begun(WORLD, 41, 32, 64)
        log.applied(WORLD, 41, 32, 64, 0)

    def test_a_folder_that_cannot_be_written_is_the_users_mistake(self):
        file = self.folder / "file"
        file.touch()
        with self.assertRaisesRegex(UserError, "RINGMASTER_AUDIT_LOG"):
            self.open(file)

    @unittest.skipUnless(os.path.exists("/dev/full"), "has no file that is always full")
    def test_ends_with_one_warning_where_it_cannot_be_written(self):
        path = self.folder / "full.jsonl"
        path.symlink_to("/dev/full")
        log = self.open(path)
        with self.assertLogs("ringmaster", "WARNING") as logs:
            self.enter(log)
            log.begun(WORLD, 41, 32, 64)

        self.assertEqual(len(logs.output), 1)
        self.assertIn("cannot be audited", logs.output[0])
        self.assertFalse(log.on)


if __name__ == "__main__":
    unittest.main()
