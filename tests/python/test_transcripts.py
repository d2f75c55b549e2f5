"""Tests the package with the rank's side of every transcript (tests/transcripts/README.md)."""

import copy
import json
import pathlib
import threading
import time
import unittest

from fake_agent import LIMIT, Call, FakeAgent
from ringmaster.agent import AgentMembership
from ringmaster.world import Epoch, Progress

TRANSCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "transcripts"
# For a rank's messages, what each implementation and each run has its own.
FREE = {("RankHello", "pid"), ("RankHello", "protocol"), ("StoreGet", "id")}


def rank_transcripts(folder):
    found = {}
    for path in sorted(folder.glob("rank-*.jsonl")):
        found[path.stem] = [json.loads(line) for line in path.read_text().splitlines()]
    return found


def epoch_of(fields):
    return Epoch(fields["term"], fields["number"])


def progress_of(fields):
    return Progress(
        fields["step"], fields["totalSteps"], fields["samplesPerSecond"], fields["loss"], fields["accuracy"]
    )


def eventually(look):
    """Waits for a change that the rank's reader makes without a notification."""
    limit = time.monotonic() + LIMIT
    while not look():
        if time.monotonic() > limit:
            raise AssertionError("the rank did not notice")
        time.sleep(0)


class Player:
    """Plays a transcript against one AgentMembership, as its agent and as the program that uses it."""

    def __init__(self, transcript):
        self.lines = transcript[1:]
        self.asked = 0  # id of the rank's newest question
        self.now = 0.0
        self.agent = FakeAgent()
        self.rank = AgentMembership(self.agent.path, transcript[0]["slot"], self.later)
        self.agent.accept()
        self.world = None
        self.over = threading.Event()
        self.call = {}  # running calls by their kind

    def later(self):
        """A clock that advances a second at each read, because reports that are too frequent are dropped."""
        self.now += 1.0
        return self.now

    def play(self):
        try:
            for number, line in enumerate(self.lines, 2):
                try:
                    self.play_line(line)
                except Exception as error:
                    raise AssertionError(f"line {number}: {error}") from error
        finally:
            self.agent.close()  # ends calls that still wait
            self.rank.close()

    def play_line(self, line):
        if "agent" in line:
            message = dict(line["agent"])
            if message["type"] == "StoreValues":
                message["id"] = self.asked
            self.agent.send(**message)
        elif "rank" in line:
            self.expect(line["rank"])
        else:
            getattr(self, line["does"].replace(" ", "_"))(line)

    def expect(self, wanted):
        said = self.agent.receive()
        assert said is not None, f"the rank did not say {wanted}"
        if said["type"] == "StoreGet":
            self.asked = said["id"]
        for name, value in wanted.items():
            same = name in said and ((wanted["type"], name) in FREE or said[name] == value)
            assert same, f"the rank said {said}, not {wanted}"

    # What the program does, by its name in the transcript.

    def await_a_world(self, line):
        self.rank.unwatch()
        self.call["world"] = Call(self.rank.await_world, epoch_of(line["after"]))

    def enter_the_world(self, line):
        self.world = self.call["world"].result()
        self.over = threading.Event()
        self.rank.watch(self.world.epoch, lambda reason, over=self.over: over.set())
        entered = (self.world.epoch, self.world.rank, self.world.size)
        wanted = (epoch_of(line["epoch"]), line["as_rank"], line["size"])
        assert entered == wanted, f"the rank entered {entered}, not {wanted}"

    def set(self, line):
        self.rank.store(self.world).set(line["key"], line["value"].encode())

    def get(self, line):
        store = self.rank.store(self.world)
        self.call["values"] = Call(store.get, line["keys"], time.monotonic() + LIMIT)

    def get_values(self, line):
        values = [value.decode() for value in self.call["values"].result()]
        assert values == line["values"], f"the rank got {values}"

    def report(self, line):
        self.rank.report(self.world, progress_of(line["progress"]))

    def find_a_switch_wanted(self, line):
        eventually(lambda: self.rank.switch_wanted(self.world.epoch))
        assert self.rank.leaving(self.world.epoch) == line["leaving"], "the rank knows it otherwise"

    def leave_at_the_boundary(self, line):
        self.rank.at_boundary(self.world, line["step"])

    def find_the_world_over(self, line):
        assert self.over.wait(LIMIT), "the rank did not find the world over"

    def report_the_world_broken(self, line):
        self.rank.broken(self.world, line["peer"], line["reason"])

    def find_a_checkpoint_wanted(self, line):
        eventually(lambda: self.rank.checkpoint_wanted(self.world.epoch))

    def write_a_shard(self, line):
        shard = [line[name] for name in ("step", "shard", "bytes", "checksum")]
        self.call["grant"] = Call(self.rank.await_grant, *shard, threading.Event())

    def complete_the_checkpoint(self, line):
        self.call["grant"].result()
        self.rank.checkpoint_complete(line["step"], line["bytes"])

    def say_with_what_it_begins(self, line):
        self.rank.began(self.world, line["step"], line["message"], None)

    def lack_protection(self, line):
        self.rank.unprotected(line["what"], line["reason"])

    def finish(self, line):
        self.call["finish"] = Call(self.rank.finish, self.world, progress_of(line["progress"]))

    def end(self, line):
        assert self.call["finish"].result(), "the rank was not released"

    def be_killed(self, line):
        pass

    be_told_to_end = be_killed


class Transcripts(unittest.TestCase):
    def test_the_rank_plays_its_side_of_all(self):
        for folder in sorted(path for path in TRANSCRIPTS.iterdir() if path.is_dir()):
            ranks = rank_transcripts(folder)
            self.assertGreaterEqual(len(ranks), 5, folder)
            for name, transcript in ranks.items():
                with self.subTest(f"{folder.name}/{name}"):
                    Player(transcript).play()

    def test_a_rank_that_says_something_else_is_found(self):
        for name, transcript in rank_transcripts(TRANSCRIPTS / "current").items():
            changed = copy.deepcopy(transcript)
            sets = [line["rank"] for line in changed if line.get("rank", {}).get("type") == "StoreSet"]
            for message in sets:
                message["key"] = "another"
            if sets:  # otherwise it was in no world
                with self.subTest(name), self.assertRaisesRegex(AssertionError, "another"):
                    Player(changed).play()


if __name__ == "__main__":
    unittest.main()
