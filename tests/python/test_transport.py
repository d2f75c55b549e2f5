"""A world's connections end alone: nothing else that the process has open."""

import os
import tempfile
import unittest
from unittest import mock

import torch
from ringmaster.transport import Communicator
from ringmaster.world import Epoch, Member, World


class Abort(unittest.TestCase):
    def test_a_number_that_is_another_file_s_by_now_is_left_alone(self):
        members = tuple(Member(f"uid-{rank}", f"worker-{rank}", "", "127.0.0.1", 0, "start") for rank in range(2))
        with tempfile.TemporaryFile() as file:
            with mock.patch("ringmaster.transport._sockets", return_value={file.fileno(): "socket:[1]"}):
                communicator = Communicator(World(Epoch(1, 1), 0, members), torch.device("cpu"), 5)
                communicator._before = {}
                before = os.listdir("/proc/self/fd")

                communicator.abort("the world is over")

            self.assertEqual(os.listdir("/proc/self/fd"), before)
            file.write(b"still open")


if __name__ == "__main__":
    unittest.main()
