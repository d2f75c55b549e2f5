"""Tests that the package's messages have the C++ codec's wire format, and that no received bytes can do harm."""

import json
import math
import pathlib
import random
import unittest

from ringmaster import messages
from ringmaster.messages import MessageError, decode, encode
from ringmaster.world import Epoch, KeptCheckpoint, Member, Progress

EPOCH = Epoch(2, 7)
WIRE_EPOCH = {"term": 2, "number": 7}
HOST = {"podUid": "uid-0", "pod": "w-0", "node": "n0", "address": "10.0.0.1", "start": "a-"}
HOSTS = [
    {**HOST, "slots": [0, 1], "starts": ["1", "4"]},
    {**HOST, "podUid": "uid-1", "pod": "w-1", "slots": [0], "starts": [""]},
]
MEMBERS = {"hosts": HOSTS, "order": [0, 1, 1, 1, 0, 1]}
TRANSCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "transcripts"


def line(type_name, **fields):
    return json.dumps({"type": type_name, **fields}).encode()


def world_of(hosts, order):
    return line("RankEpoch", epoch=WIRE_EPOCH, rank=0, members={"hosts": hosts, "order": order})


# One message of each type that an agent sends, with its meaning.
FROM_AGENT = {
    line("RankLeave", below=WIRE_EPOCH): messages.RankLeave(EPOCH),
    line("RankSwitch", epoch=WIRE_EPOCH, leaving=True): messages.RankSwitch(EPOCH, True),
    line("RankSwitch", epoch=WIRE_EPOCH): messages.RankSwitch(EPOCH, False),
    line("CheckpointGrant", epoch=WIRE_EPOCH, rank=1, step=2, shard=3): messages.CheckpointGrant(
        EPOCH, 1, 2, 3
    ),
    line("TakeCheckpoint", epoch=WIRE_EPOCH): messages.TakeCheckpoint(EPOCH),
    line("Release", epoch=WIRE_EPOCH): messages.Release(EPOCH),
    line("StoreValues", epoch=WIRE_EPOCH, id=9, rank=1, values=["AP8=", ""]): messages.StoreValues(
        EPOCH, 9, 1, [b"\0\xff", b""]
    ),
    line("RankEpoch", epoch=WIRE_EPOCH, rank=2, members=MEMBERS, fullSize=9): messages.RankEpoch(
        EPOCH,
        2,
        (
            Member("uid-0", "w-0", "n0", "10.0.0.1", 0, "a-1"),
            Member("uid-1", "w-1", "n0", "10.0.0.1", 0, "a-"),
            Member("uid-0", "w-0", "n0", "10.0.0.1", 1, "a-4"),
        ),
        9,
    ),
}


class Encoding(unittest.TestCase):
    def said(self, message):
        text = encode(message)
        self.assertEqual(text.count(b"\n"), 1)
        self.assertTrue(text.endswith(b"\n"))
        return json.loads(text, parse_constant=self.fail)

    def test_names_and_forms_are_those_of_the_wire(self):
        progress = Progress(3, 100, 10.5, 0.25)
        kept = KeptCheckpoint(step=40, nbytes=4096, age_millis=5)
        for message, wanted in (
            (messages.RankHello(1, 4711), {"slot": 1, "pid": 4711, "protocol": 4}),
            (messages.RankBroken(EPOCH, 0, -1, "reset"), {"rank": 0, "peer": -1, "reason": "reset"}),
            (messages.RankAtBoundary(EPOCH, 1, 8), {"rank": 1, "step": 8}),
            (
                messages.RankProgress(EPOCH, progress),
                {
                    "progress": {
                        "step": 3,
                        "totalSteps": 100,
                        "samplesPerSecond": 10.5,
                        "loss": 0.25,
                        "accuracy": -1.0,
                    }
                },
            ),
            (messages.RankDone(EPOCH, 1, False), {"rank": 1, "trained": False}),
            (
                messages.CheckpointWritten(EPOCH, 1, 500, 2, 64, "00ff"),
                {"rank": 1, "step": 500, "shard": 2, "bytes": 64, "checksum": "00ff"},
            ),
            (messages.CheckpointDone(EPOCH, 1, 500, 64), {"rank": 1, "step": 500, "bytes": 64}),
            (
                messages.RankBegan(EPOCH, 0, messages.Beginning(40, "resumed"), kept),
                {
                    "rank": 0,
                    "beginning": {"step": 40, "message": "resumed"},
                    "kept": {"step": 40, "bytes": 4096, "ageMillis": 5},
                },
            ),
            (messages.RankProtection(1, "snapshot", "no memory"), {"slot": 1, "fault": "no memory"}),
            (messages.StoreSet(EPOCH, "k", b"\0\xff"), {"key": "k", "value": "AP8="}),
            (messages.StoreGet(EPOCH, 3, 1, ["a", "b"]), {"id": 3, "rank": 1, "keys": ["a", "b"]}),
        ):
            with self.subTest(message=message):
                said = self.said(message)
                self.assertEqual(said["type"], type(message).__name__)
                self.assertEqual({name: said.get(name) for name in wanted}, wanted)
                self.assertEqual(said.get("epoch", WIRE_EPOCH), WIRE_EPOCH)

    def test_numbers_that_are_none_are_null(self):
        for loss in (math.nan, math.inf, -math.inf):
            said = self.said(messages.RankProgress(EPOCH, Progress(1, loss=loss)))
            self.assertIsNone(said["progress"]["loss"])

    def test_no_kept_checkpoint_is_null(self):
        self.assertIsNone(self.said(messages.RankBegan(EPOCH, 0, messages.Beginning(0, ""), None))["kept"])

    def test_text_that_is_not_unicode_is_replaced(self):
        self.assertEqual(self.said(messages.RankBroken(EPOCH, 0, 1, "\ud800ä\n"))["reason"], "?ä\n")


class Decoding(unittest.TestCase):
    def refused(self, text, wanted=""):
        with self.assertRaisesRegex(MessageError, wanted):
            decode(text)

    def test_all_that_agents_send(self):
        for text, message in FROM_AGENT.items():
            with self.subTest(text):
                self.assertEqual(decode(text), message)

    def test_all_that_agents_of_each_release_sent(self):
        for path in TRANSCRIPTS.glob("*/rank-*.jsonl"):
            for text in path.read_text().splitlines():
                said = json.loads(text).get("agent")
                if said is not None:
                    self.assertIsNotNone(decode(json.dumps(said).encode()), text)

    def test_what_is_not_known_is_passed_over(self):
        self.assertIsNone(decode(line("FromTheFuture", epoch=3)))
        release = line("Release", epoch={**WIRE_EPOCH, "more": 10**300}, more=[{}])
        self.assertEqual(decode(release), messages.Release(EPOCH))
        switch = line("RankSwitch", epoch=WIRE_EPOCH, leaving=None)
        self.assertEqual(decode(switch), messages.RankSwitch(EPOCH, False))

    def test_what_is_no_message(self):
        for text in (b"", b"[]", b"{", b'{"type":3}', b'"Release"', b"\xff", b"[" * 100_000, b"null"):
            self.refused(text, "reading a message")
        for number in (b"NaN", b"Infinity", b"1e999", b"9" * 1_000_000):
            self.refused(b'{"type":"Release","epoch":{"term":1,"number":1},"more":%s}' % number, "JSON")

    def test_errors_name_the_field(self):
        self.refused(line("Release"), "reading a Release message: field 'epoch' is missing")
        self.refused(line("Release", epoch={"term": 1}), "field 'epoch': field 'number' is missing")
        self.refused(line("Release", epoch=[]), "field 'epoch': expected an object")
        for number in (True, 1.0, "1", None, [], 1e30):
            self.refused(line("Release", epoch={"term": number, "number": 1}), "'term': expected an integer")
        for number in (2**63, -(2**63) - 1, 10**19):
            self.refused(line("Release", epoch={"term": number, "number": 1}), "'term': ")
        self.refused(line("RankSwitch", epoch=WIRE_EPOCH, leaving=1), "'leaving': expected true or false")

    def test_values_are_strict_base64(self):
        for value in ("A", "AP8", "AP8= ", "AP9=", "-_8=", "ä", 3):
            self.refused(line("StoreValues", epoch=WIRE_EPOCH, id=1, rank=0, values=[value]), "'values'")

    def test_a_world_has_each_of_its_ranks_once(self):
        host = HOSTS[0]
        for hosts, order, wanted in (
            (HOSTS, [0, 1, 1, 1], "does not place all ranks"),
            (HOSTS, [0, 2, 1, 2], "more ranks than hosts have"),
            (HOSTS, [0, 2, 0, 1, 1, 1], "more ranks than hosts have"),
            (HOSTS, [0, -1, 1, 1], "more ranks than hosts have"),
            (HOSTS, [2, 1], "a host that does not exist"),
            (HOSTS, [-1, 1], "a host that does not exist"),
            (HOSTS, [0], "pairs"),
            ([{**host, "slots": [0]}], [0, 1], "invalid slots"),
            ([{**host, "slots": [0, -1]}], [0, 2], "'slots'"),
            ([{**host, "slots": [0, 16385]}], [0, 2], "'slots'"),
            ([{**host, "address": "\ud800"}], [0, 2], "not Unicode"),
            ([{**host, "start": "a" * 1025}], [0, 2], "too long"),
            ([{**host, "node": None}], [0, 2], "expected text"),
            ([3], [], "expected an object"),
            ({}, [], "expected a list"),
        ):
            self.refused(world_of(hosts, order), wanted)

    def test_a_world_has_at_most_so_many_ranks(self):
        most = messages.MAX_RANKS
        full = {**HOST, "slots": [0] * most, "starts": [""] * most}
        self.assertEqual(len(decode(world_of([full], [0, most])).members), most)
        self.refused(world_of([full, HOSTS[1]], [0, most, 1, 1]), "too many ranks")
        self.refused(world_of([{}] * (most + 1), []), "too many hosts")
        larger = {**HOST, "slots": [0] * (most + 1), "starts": [""] * (most + 1)}
        self.refused(world_of([larger], [0, most + 1]), "slots")

    def test_a_long_number_costs_little(self):
        for text in (b"1." + b"1" * 2_000_000, b"0." + b"0" * 2_000_000 + b"1"):
            fine = b'{"type":"Release","epoch":{"term":1,"number":1},"more":%s}' % text
            self.assertEqual(decode(fine), messages.Release(Epoch(1, 1)))

    def test_any_change_of_a_line_gives_a_message_or_an_error(self):
        draw = random.Random(20261127)
        lines = list(FROM_AGENT)
        pieces = [b"{}", b"[]", b"null", b"-1", b"1e9", b"true", b'"', b"\\ud800", b"\xff", b"16385", b","]
        decoded = 0
        for _ in range(20_000):
            text = bytearray(draw.choice(lines))
            for _ in range(draw.randint(1, 3)):
                begin = draw.randrange(len(text) + 1)
                end = min(len(text), begin + draw.choice((0, 1, 1, 2, 8)))
                byte, again = bytes([draw.randrange(256)]), bytes(text[begin:end]) * 2
                text[begin:end] = draw.choice((draw.choice(pieces), byte, again, b""))
            try:
                message = decode(bytes(text))
            except MessageError:
                continue
            decoded += message is not None
            if isinstance(message, messages.RankEpoch):
                json.dumps([member.name for member in message.members], ensure_ascii=False).encode()
        self.assertGreater(decoded, 1000)

    def test_any_change_of_a_value_gives_a_message_or_an_error(self):
        draw = random.Random(4)
        values = [None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 1.5, "", "A===", "\ud800", [], {}, [[]], [3]]
        for text in FROM_AGENT:
            for _ in range(500):
                fields = json.loads(text)
                self.change(draw, fields, values)
                try:
                    decode(json.dumps(fields).encode())
                except MessageError:
                    pass

    def change(self, draw, value, values):
        """Replaces, removes or repeats a random part of the message."""
        places = list(value) if isinstance(value, dict) else range(len(value))
        if not places:
            return
        place = draw.choice(places)
        if isinstance(value[place], (dict, list)) and value[place] and draw.random() < 0.8:
            self.change(draw, value[place], values)
        elif isinstance(value, list) and draw.random() < 0.3:
            value.append(value[place])
        elif draw.random() < 0.2:
            del value[place]
        else:
            value[place] = draw.choice(values)


if __name__ == "__main__":
    unittest.main()
