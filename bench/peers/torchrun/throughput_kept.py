"""Measures how much of its throughput a PyTorch DDP job under elastic torchrun keeps while its ranks are killed.

Starts torchrun with one agent for all ranks (which restarts them fastest, without a rendezvous with other agents), lets it
train undisturbed for as long as the time between two faults, then kills a rank every --every seconds, and prints one JSON
object. A step that is repeated after a restart counts once. A rank is killed only while its group trains: if restarts take
longer than the time between two faults, the schedule gets longer, and fewer faults fit into the limit.

The undisturbed rate is measured before the first fault and, between two faults, from the time when the group trains again
and has settled, in the same way as in bench/chaos. With --cpus each rank gets that CPU quota from a control group, so that
survivors cannot use a dead rank's share.
"""

import argparse
import ctypes
import glob
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import typing

PR_SET_PDEATHSIG = 1
SETTLES = 2.0  # seconds
PERIOD = 10000  # microseconds


class Step(typing.NamedTuple):
    at: float  # seconds
    step: int


class CpuGroups:
    """A control group (version 1 or 2) with a CPU limit for each rank."""

    def __init__(self, ranks, cpus):
        unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.prefix = f"/sys/fs/cgroup/{'' if unified else 'cpu/'}ringmaster-ddp-{os.getpid()}-"
        self.folders = [f"{self.prefix}{rank}" for rank in range(ranks)]
        quota = str(round(cpus * PERIOD))
        if unified:
            self.write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu")
        for folder in self.folders:
            os.mkdir(folder)
            if unified:
                self.write(f"{folder}/cpu.max", f"{quota} {PERIOD}")
            else:
                self.write(f"{folder}/cpu.cfs_period_us", str(PERIOD))
                self.write(f"{folder}/cpu.cfs_quota_us", quota)

    @staticmethod
    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def remove(self):
        for folder in self.folders:
            deadline = time.monotonic() + 10
            while True:
                try:
                    os.rmdir(folder)
                    break
                except OSError:  # a rank in it has not ended yet
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)


class Job:
    """A running torchrun and the output of its ranks."""

    def __init__(self, folder, options, groups):
        self.folder = folder
        self.deadline = time.monotonic() + options.limit
        command = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.replicas}",
            "--max-restarts=1000", os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py"),
            f"--folder={folder}", f"--global-batch={options.global_batch}",
            f"--checkpoint-every={options.checkpoint_every}", *(["--tuned"] if options.tuned else []),
        ]  # fmt: skip
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "CUDA_VISIBLE_DEVICES": "",
            # Otherwise the agent keeps one store for all restarts, and the keys have no prefix for each restart
            # (pytorch issue 135712): an early rank reads the killed group's addresses, and connectFullMesh fails.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        if groups:
            environment["CPU_GROUPS"] = groups.prefix
        with open(f"{folder}/log", "w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )  # fmt: skip

    def end(self):
        """Stops torchrun and its ranks, with SIGKILL if necessary."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def last_words(self):
        with open(f"{self.folder}/log", errors="replace") as file:
            return "".join(file.readlines()[-40:])

    def steps(self, restarts="*"):
        """Returns the steps of the group that ran after this number of restarts, by default of all groups. Ignores incomplete lines."""
        result = []
        for path in glob.glob(f"{self.folder}/progress-{restarts}"):
            with open(path) as file:
                text = file.read()
            for line in text[: text.rfind("\n") + 1].splitlines():
                at, step = line.split()
                result.append(Step(float(at), int(step)))
        return result

    def newest_group(self):
        """Returns the number of restarts before the latest group that trains; -1 before the first group."""
        return max((int(path.rpartition("-")[2]) for path in glob.glob(f"{self.folder}/progress-*")), default=-1)

    def await_group(self, after, since):
        """Waits for the first step of a group with more than `after` restarts. Returns (restarts, step)."""
        while time.monotonic() < self.deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"{since}, torchrun ended with exit code {self.process.returncode}")
            restarts = self.newest_group()
            if restarts > after and (steps := self.steps(restarts)):
                return restarts, steps[0]
            time.sleep(0.05)
        raise SystemExit(f"{since}, no step was made within the --limit of the run")

    def kill(self, rank):
        with open(f"{self.folder}/rank-{rank}") as file:
            pid = int(file.read())
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                ours = self.folder in file.read()
        except FileNotFoundError:
            ours = False
        if not ours:
            raise SystemExit(f"rank {rank} (process {pid}) had ended before it was to be killed")
        os.kill(pid, signal.SIGKILL)


def committed(steps, seconds):
    """Returns the number of the last step that was completed by the time `seconds`."""
    return max((step.step for step in steps if step.at <= seconds), default=0)


def rate(steps, windows):
    done = sum(committed(steps, end) - committed(steps, begin) for begin, end in windows)
    return done / sum(end - begin for begin, end in windows)


def measure(job, options):
    chooser = random.Random(options.seed)
    group, _ = job.await_group(-1, "after the start")
    calm = time.monotonic()
    time.sleep(options.every)  # the time of the first undisturbed rate
    begin = time.monotonic()
    if job.process.poll() is not None or job.newest_group() != group:
        raise SystemExit("the group failed before the first fault")

    windows, restart_seconds = [(calm, begin)], []
    while len(restart_seconds) < options.count and time.monotonic() + options.every <= job.deadline:
        victim = chooser.randrange(options.replicas)
        group, struck = job.newest_group(), time.monotonic()
        job.kill(victim)
        group, first = job.await_group(group, f"after rank {victim} was killed")
        restart_seconds.append(first.at - struck)
        repeated = max(0, committed(job.steps(), struck) - first.step + 1)  # it trains until the signal arrives
        print(
            f"kill-rank  rank {victim}: first step {restart_seconds[-1]:5.1f} s, steps to repeat {repeated}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        settled, following = first.at + SETTLES, max(struck + options.every, time.monotonic())
        if settled < following:
            windows.append((settled, following))
        time.sleep(max(0, following - time.monotonic()))
    end = time.monotonic()
    if not restart_seconds:
        raise SystemExit("no fault fits into the --limit of the run; raise --limit or lower --every")

    steps = job.steps()
    undisturbed = rate(steps, windows)
    return {
        "throughput_kept": rate(steps, [(begin, end)]) / undisturbed,
        "restart_seconds": statistics.median(restart_seconds),
        "faults": len(restart_seconds),
        "ranks": options.replicas,
        "worst_restart_seconds": max(restart_seconds),
        "restarts": group,  # more than faults if a group failed before its first step
        "seconds": end - begin,
        "every": options.every,
        "undisturbed_steps_per_second": undisturbed,
        "checkpoint_every": options.checkpoint_every,
        "tuned": options.tuned,
        "cpus": options.cpus,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--global-batch", type=int, default=48)
    parser.add_argument("--count", type=int, default=8, help="maximum number of faults")
    parser.add_argument("--every", type=float, default=29, help="seconds between faults")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--cpus", type=float, help="CPU limit of each rank; default: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="maximum seconds of the run")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))

    with tempfile.TemporaryDirectory() as folder:
        groups = CpuGroups(options.replicas, options.cpus) if options.cpus else None
        job = Job(folder, options, groups)
        try:
            result = measure(job, options)
        except SystemExit:
            sys.stderr.write(job.last_words())
            raise
        finally:
            job.end()
            if groups:
                groups.remove()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
