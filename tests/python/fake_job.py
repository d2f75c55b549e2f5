"""A fake of a job's launcher and agents: chooses worlds of rank processes and exchanges messages
with them over unix sockets.

Each rank is a process that runs a script with the package and sends RankHello. `world()` puts ranks into the next world;
`kill`, `stop` and `remove` inject faults. Every wait has a timeout.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from fork_server import environment as rank_environment
from patience import PATIENCE

LIMIT = 60.0 * PATIENCE


class Rank:
    def __init__(self, number, start):
        self.number = number
        self.start = start
        self.process = None
        self.connection = None
        self.said = []  # all messages of the rank
        self.alive = True

    @property
    def member(self):
        return {"podUid": f"uid-{self.number}", "pod": f"job-worker-{self.number}", "node": f"node-{self.number}",
                "address": "127.0.0.1", "slots": [0], "start": self.start, "starts": [""]}


class FakeJob:
    """`script` is Python source. `server` is the ForkServer that forks the ranks; None: the ranks start as in a Pod.
    Use the job as a context manager, which kills all ranks at its end."""

    def __init__(self, folder, script, environment=None, arguments=(), server=None):
        self.folder = folder
        self.server = server
        self.environment = environment or {}
        self.arguments = list(arguments)
        self.script = os.path.join(folder, "script.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(script)
        self.ranks = []
        self.number = 0  # number of the newest epoch
        self.members = []
        self._store = {}  # store of the newest world
        self._questions = []
        self._changed = threading.Condition()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.wait()
            rank.process.stdout.close()

    # --- ranks

    def start(self, number, agent=True):
        """Starts a rank as worker `number`; it sends RankHello and waits for a world. Without an agent, the rank
        trains alone."""
        rank = Rank(number, f"start-{len(self.ranks)}")
        path = os.path.join(self.folder, f"agent-{len(self.ranks)}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        variables = rank_environment(**self.environment)
        if agent:
            variables.update(RINGMASTER_AGENT_SOCKET=path, RINGMASTER_SLOT="0")
        rank.log = os.path.join(self.folder, f"rank-{len(self.ranks)}.log")
        with open(rank.log, "wb") as log:
            if self.server:
                rank.process = self.server.start(self.script, self.arguments, variables, log)
            else:
                rank.process = subprocess.Popen([sys.executable, self.script, *self.arguments], env=variables,
                                                stdout=subprocess.PIPE, stderr=log)
        self.ranks.append(rank)
        rank.lines = []
        threading.Thread(target=self._read_output, args=(rank,), daemon=True).start()
        if agent:
            threading.Thread(target=self._serve, args=(rank, listener), daemon=True).start()
        else:
            listener.close()
        return rank

    def _read_output(self, rank):
        for line in rank.process.stdout:
            with self._changed:
                rank.lines.append((time.monotonic(), line.decode().rstrip("\n")))
                self._changed.notify_all()

    def _serve(self, rank, listener):
        rank.connection, _ = listener.accept()
        listener.close()
        try:
            for line in rank.connection.makefile("rb"):
                with self._changed:
                    rank.said.append(json.loads(line))
                    self._answer(rank, rank.said[-1])
                    self._changed.notify_all()
        except ConnectionResetError:
            pass  # it was killed
        with self._changed:
            rank.alive = False
            self._changed.notify_all()

    def _answer(self, rank, message):
        kind = message["type"]
        if message.get("epoch") != self._epoch():
            return  # the message belongs to an earlier world
        if kind == "StoreSet":
            self._store[message["key"]] = message["value"]
        elif kind == "StoreGet":
            self._questions.append((rank, message))
        elif kind == "CheckpointWritten":
            self.say(rank, type="CheckpointGrant", **{key: message[key] for key in ("epoch", "rank", "step", "shard")})
        for question in list(self._questions):
            asker, asked = question
            if all(key in self._store for key in asked["keys"]):
                self._questions.remove(question)
                self.say(asker, type="StoreValues", epoch=asked["epoch"], id=asked["id"], rank=asked["rank"],
                         values=[self._store[key] for key in asked["keys"]])

    @staticmethod
    def say(to, **message):
        try:
            to.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it has ended

    # --- worlds

    def _epoch(self):
        return {"term": 1, "number": self.number}

    def world(self, members, full_size=0):
        """Forms the next world: the ranks of the last world must leave, then all members get RankEpoch."""
        with self._changed:
            self.number += 1
            for rank in set(self.members) | set(members):
                self.say(rank, type="RankLeave", below=self._epoch())
            self.members = list(members)
            self._store, self._questions = {}, []
            hosts = [rank.member for rank in members]
            order = [value for place in range(len(members)) for value in (place, 1)]
            for place, rank in enumerate(members):
                self.say(rank, type="RankEpoch", epoch=self._epoch(), rank=place,
                         members={"hosts": hosts, "order": order}, fullSize=full_size)

    def switch(self, leaving=()):
        """Makes all ranks leave the world after the same step."""
        with self._changed:
            for rank in self.members:
                self.say(rank, type="RankSwitch", epoch=self._epoch(), leaving=rank in leaving)

    def suspend(self):
        """Asks rank 0 for the checkpoint of a suspension. Returns the step of the checkpoint once it is complete."""
        self.say(self.members[0], type="TakeCheckpoint", epoch=self._epoch())
        self.wait_for(self.members[:1], "CheckpointDone")
        return next(one["step"] for one in self.members[0].said if one["type"] == "CheckpointDone")

    def release(self):
        for rank in self.members:
            self.say(rank, type="Release", epoch=self._epoch())

    # --- waiting

    def wait(self, condition, what):
        with self._changed:
            if not self._changed.wait_for(condition, LIMIT):
                raise AssertionError(f"waited {LIMIT:g} s for {what}\n" + self.logs())

    def wait_for(self, ranks, kind):
        """Waits until each rank has sent a message of this type in the newest world (RankHello: at any time)."""
        def said():
            return all(any(one["type"] == kind and one.get("epoch", self._epoch()) == self._epoch()
                           for one in rank.said) for rank in ranks)
        self.wait(said, f"{kind} of {len(ranks)} ranks")

    def wait_for_line(self, rank, text, count=1):
        self.wait(lambda: sum(text in line for _, line in rank.lines) >= count, f"'{text}'")

    def wait_until_lost(self, rank):
        self.wait(lambda: not rank.alive, "the end of a rank")

    def logs(self):
        texts = []
        for rank in self.ranks:
            with open(rank.log, encoding="utf-8", errors="replace") as file:
                texts.append(f"--- rank of worker {rank.number}\n" + file.read()[-3000:])
        return "\n".join(texts)

    # --- faults

    def kill(self, rank):
        rank.process.kill()
        rank.process.wait()

    def stop(self, rank):
        os.kill(rank.process.pid, signal.SIGSTOP)
