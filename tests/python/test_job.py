"""Tests scripts that train with the package, each rank a process: worlds that change, and the computed losses."""

import os
import tempfile
import unittest

from fake_job import FakeJob
from fork_server import of_ranks
from programs import BEGIN, END, LOOP, TRAIN

STEPS = 300


class ScriptTest(unittest.TestCase):
    alone = {}  # losses, by step

    modules = ()  # that the scripts import late

    def new_job(self, *arguments, script=TRAIN, fork=True, **environment):
        """Returns a job without ranks. `fork`: ranks are forks that have already imported PyTorch; otherwise they start as in a Pod."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environment["RINGMASTER_AUDIT_LOG"] = os.path.join(folder.name, "audit")
        job = FakeJob(folder.name, script, environment, [str(one) for one in arguments],
                      of_ranks(*self.modules) if fork else None)
        self.addCleanup(job.close)
        return job

    def job(self, ranks, *arguments, **options):
        job = self.new_job(*arguments, **options)
        started = [job.start(number) for number in range(ranks)]
        job.wait_for(started, "RankHello")
        return job, started

    def finish(self, job, ranks):
        """Waits until all ranks are done; returns their last line, which must be the same on all ranks."""
        job.wait_for(ranks, "RankDone")
        job.release()
        for rank in ranks:
            job.wait_for_line(rank, "done")
            self.assertEqual(rank.process.wait(30), 0, job.logs())
        ends = {rank.lines[-1][1] for rank in ranks}
        self.assertEqual(len(ends), 1, f"ranks end with different states: {ends}\n" + job.logs())
        return ends.pop()

    def kill_and_join(self, job, ranks):
        """Kills the first of three ranks, two of which are in the world, and lets the third join. Returns finish()'s result."""
        job.wait_for_line(ranks[0], "8 ")
        job.kill(ranks[0])
        job.wait_until_lost(ranks[0])
        job.world(ranks[1:2])
        job.wait_for_line(ranks[1], "12 ")
        job.switch()
        job.wait_for(ranks[1:2], "RankAtBoundary")
        job.world(ranks[1:])
        return self.finish(job, ranks[1:])

    def assert_same_curve(self, job, joined, curve):
        """Asserts that the job has the losses of `curve` (100 steps) after the first step of the rank that joined last."""
        last = min(int(line.split()[0]) for _, line in joined.lines if line[0].isdigit())
        for step, loss in self.losses(job).items():
            if step > last:  # no rank is dead or repeats steps: all ranks' parts make up the step
                self.assertAlmostEqual(loss, curve[step], delta=1e-4)
        self.assertLess(curve[99], 0.5 * curve[0])

    def losses(self, job):
        """Returns the mean loss of each step over the samples of all ranks, from the lines that the ranks printed."""
        sums = {}
        for rank in job.ranks:
            last = {}
            for _, line in rank.lines:
                parts = line.split()
                if len(parts) == 3 and parts[0] != "done":
                    last.setdefault(int(parts[0]), []).append((float(parts[1]), int(parts[2])))
            for step, parts in last.items():
                sums.setdefault(step, []).extend(parts)
        return {step: sum(loss * count for loss, count in parts) / sum(count for _, count in parts)
                for step, parts in sums.items()}

    def mean_losses(self, ranks):
        """Returns the mean loss over the global batch of each step except the last; it must be the same on all ranks."""
        found = {}
        for rank in ranks:
            for _, line in rank.lines:
                if line.startswith("mean "):
                    _, step, loss = line.split()
                    self.assertEqual(found.setdefault(int(step), loss), loss)
        return {step: float(loss) for step, loss in found.items()}

    def undisturbed(self):
        """Returns the losses of a rank that is alone in its world."""
        if not ScriptTest.alone:
            job, ranks = self.job(1, STEPS)
            job.world(ranks)
            self.finish(job, ranks)
            ScriptTest.alone = self.mean_losses(ranks)
        return ScriptTest.alone

    def assert_undisturbed(self, ranks, steps):
        """Asserts that the ranks have the same losses as one rank alone."""
        losses, expected = self.mean_losses(ranks), self.undisturbed()
        self.assertEqual(losses.keys(), set(range(1, steps)))
        for step, loss in losses.items():
            self.assertAlmostEqual(loss, expected[step], delta=1e-4)


class Training(ScriptTest):
    def test_worlds_of_two_and_three_ranks_have_the_curve_of_one(self):
        for size, variants in ((3, ()), (2, ("micro",))):
            job, ranks = self.job(size, 100, *variants)
            job.world(ranks)
            self.finish(job, ranks)
            self.assert_undisturbed(ranks, 100)

    def test_a_killed_rank_costs_no_step_and_a_new_one_takes_over_the_state(self):
        job, ranks = self.job(3, STEPS, "slow", "evaluate", "micro")
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.kill(ranks[1])
        job.wait_until_lost(ranks[1])
        left = [ranks[0], ranks[2]]
        broken = []
        job.wait(lambda: broken.extend(one for rank in left for one in rank.said if one["type"] == "RankBroken") or broken,
                 "RankBroken")
        self.assertRegex(broken[0]["reason"], r"^(reducing|after) step \d+ with .*rank 1 \(job-worker-1\).*: .")
        job.world(left)
        newcomer = job.start(1)
        job.wait_for([newcomer], "RankHello")
        job.switch()
        job.wait_for(left, "RankAtBoundary")
        job.world([*left, newcomer])
        end = self.finish(job, [*left, newcomer])
        self.assertIn(f"done {STEPS} ", end)
        self.assertTrue(end.endswith(f" {STEPS}"), end)  # the scheduler's steps
        for rank in left:  # every step in order, a repeated one more than once
            parts = [line.split() for _, line in rank.lines if line[0].isdigit()]
            steps = [int(step) for step, _, _ in parts]
            self.assertEqual(steps, sorted(steps))
            self.assertEqual(set(steps), set(range(STEPS)))
            self.assertLessEqual(max(int(size) for _, _, size in parts), 5)  # micro-batches stay small in a small world
        self.assert_undisturbed(left, STEPS)

    def test_a_rank_that_joins_trains_what_has_been_unfrozen_before(self):
        thaw = "    if job.steps == 5:\n        layers[0].requires_grad_(True)\n"
        script = (BEGIN.replace("job = rm", "layers[0].requires_grad_(False)\njob = rm") +
                  LOOP.replace("    if job.steps:\n", thaw + "    if job.steps:\n") + END)
        job, ranks = self.job(3, 60, "slow", script=script)
        job.world(ranks[:2])
        self.kill_and_join(job, ranks)

    def test_a_stopped_rank_holds_nobody_up_once_the_launcher_says_so(self):
        job, ranks = self.job(3, 200, "slow", "norm", "dropout")
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.stop(ranks[0])
        job.world(ranks[1:])
        self.assertIn("done 200 ", self.finish(job, ranks[1:]))

    def test_micro_batches_stay_as_large_as_shares_were_when_ranks_are_lost(self):
        script = TRAIN.replace("    print(job.steps, loss", "    number = job.steps\n    made = job.step()\n    print(number, made, loss")
        for each in (TRAIN, script):  # also if the script makes the steps itself
            job, ranks = self.job(3, 40, "slow", script=each)
            job.world(ranks, full_size=3)
            job.wait_for_line(ranks[0], "10 ")
            job.world(ranks[:1], full_size=3)
            self.assertIn("done 40 ", self.finish(job, ranks[:1]))
            parts = [line.split() for _, line in ranks[0].lines if line[0].isdigit()]
            self.assertEqual({int(part[-1]) for part in parts}, {8})
            self.assertEqual(sum(part[0] == "39" for part in parts), 3)
            self.assert_undisturbed(ranks[:1], 40)

    def test_ranks_with_unequal_micro_batches_agree_on_buffers(self):
        script = TRAIN.replace("job = rm.join(", "model.register_buffer('seen', torch.zeros(1))\njob = rm.join(").replace(
            "    job.backward(loss)", "    model.seen += batch.x.sum()\n    job.backward(loss)").replace("=24", "=26")
        job, ranks = self.job(3, 60, "norm", "micro", "slow", script=script)
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.world(list(reversed(ranks)))
        self.assertIn("done 60 ", self.finish(job, ranks))

    def test_a_cache_that_grows_with_the_samples_of_a_rank_remains_its_own(self):
        script = """
import torch
class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("of", torch.ones(1), persistent=False)
    def forward(self, x):
        if len(self.of) < 200 * x.abs().max():
            self.of = torch.arange(int(200 * x.abs().max()) + 1)
        return x
""" + TRAIN.replace("[torch.nn.Linear(16, 32)", "[Cache(), torch.nn.Linear(16, 32)")
        job, ranks = self.job(3, 40, "slow", script=script)
        job.world(ranks[:2])
        self.assertIn("done 40 ", self.kill_and_join(job, ranks))

    def test_a_norm_that_trains_in_a_model_in_evaluation_mode_has_equal_averages_on_all_ranks(self):
        script = TRAIN.replace("job = rm.join(", "model.eval()[1].train()\njob = rm.join(")
        job, ranks = self.job(2, 60, "norm", "slow", script=script)
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.world(list(reversed(ranks)))
        self.assertIn("done 60 ", self.finish(job, ranks))

    def test_random_numbers_of_an_update_are_the_same_on_all_ranks(self):
        script = TRAIN.replace("job.after_step(", "job.before_update(lambda: model[0].bias.grad.add_(torch.randn(32)))\njob.after_step(")
        job, ranks = self.job(3, 60, "slow", script=script.replace("    job.backward(loss)", "    job.backward(loss)\n    job.step()"))
        job.world(ranks[:2])
        self.assertIn("done 60 ", self.kill_and_join(job, ranks))

    def test_ranks_that_start_as_in_a_pod_one_of_which_computes_for_longer_than_connecting_may_take(self):
        script = TRAIN.replace("global_batch=24", "global_batch=24, timeout=2").replace(
            "    job.backward(loss)", "    if job.rank == 0 and job.steps == 3:\n        time.sleep(3)\n    job.backward(loss)")
        job, ranks = self.job(2, 6, script=script, fork=False)
        job.world(ranks)
        self.assertIn("done 6 ", self.finish(job, ranks))
        self.assertFalse([one for rank in ranks for one in rank.said if one["type"] == "RankBroken"])

    def test_a_script_alone_trains_without_an_agent(self):
        job = self.new_job(10)
        rank = job.start(0, agent=False)
        job.wait_for_line(rank, "done 10 ")
        self.assertEqual(rank.process.wait(30), 0)
        self.assert_undisturbed([rank], 10)


class Suspension(ScriptTest):
    def suspended(self, script=TRAIN):
        """Returns a job, its two ranks, and the step of its checkpoint, which was not scheduled."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job, ranks = self.job(2, 60, "slow", script=script, RINGMASTER_CHECKPOINT_DIR=folder.name)
        job.world(ranks)
        job.wait_for_line(ranks[0], "8 ")
        return job, ranks, job.suspend()

    def computed(self, rank):
        """Returns the steps for which the rank computed a share."""
        return [int(line.split()[0]) for _, line in rank.lines if line[0].isdigit()]

    def test_a_suspension_loses_no_step(self):
        job, ranks, step = self.suspended()
        job.wait_for(ranks[:1], "RankProgress")
        for rank in ranks:
            job.kill(rank)
            job.wait_until_lost(rank)
            self.assertEqual(self.computed(rank)[-1], step - 1, "a step was begun that the checkpoint does not keep")
        newcomers = [job.start(number) for number in range(2)]
        job.wait_for(newcomers, "RankHello")
        job.world(newcomers)
        self.assertIn("done 60 ", self.finish(job, newcomers))
        self.assertEqual(self.computed(newcomers[0])[0], step)

    def test_ranks_that_wait_for_a_suspension_leave_together_and_go_on(self):
        job, ranks, step = self.suspended()
        job.switch()
        job.wait_for(ranks, "RankAtBoundary")
        self.assertEqual({one["step"] for rank in ranks for one in rank.said if one["type"] == "RankAtBoundary"}, {step})
        job.world(ranks[::-1])
        self.assertIn("done 60 ", self.finish(job, ranks))
        self.assert_undisturbed(ranks, 60)

    def test_a_rank_that_ends_while_others_wait_for_a_suspension(self):
        script = BEGIN.replace("every=10", "every=1") + """
while not (job.rank == 1 and job._suspending):
    begin, end = job.begin()
    job.backward(torch.nn.functional.cross_entropy(job.model(x[begin:end]), y[begin:end]), end - begin)
    job.step()
job.finish()
"""
        job, ranks = self.job(2, 10, "evaluate", script=script)
        job.world(ranks)
        job.say(ranks[0], type="TakeCheckpoint", epoch={"term": 1, "number": 1})
        for rank in ranks:
            self.assertEqual(rank.process.wait(60), 2, job.logs())
        self.assertEqual(job.logs().count("rank 1 ended training after step"), 2)

    def test_ranks_whose_suspension_does_not_come_go_on(self):
        job, ranks, _ = self.suspended("import ringmaster.world_entry\nringmaster.world_entry._SUSPENSION_LIMIT = 0.1\n" + TRAIN)
        self.assertIn("done 60 ", self.finish(job, ranks))
        self.assertIn("its ranks were not stopped within", job.logs())


class Kept(ScriptTest):
    # The writer of checkpoints sleeps for the time of a variable before it writes.
    SLOW = """
import os, time
from ringmaster import checkpoint_folder, world_entry
world_entry._STUCK = float(os.environ.get("STUCK", "60"))
save = checkpoint_folder.Folder.save
def slow(self, version, content, stop):
    stop.wait(float(os.environ.get("SLEEP", "0")))
    return save(self, version, content, stop)
checkpoint_folder.Folder.save = slow
"""

    def kept(self, *arguments, script=TRAIN, **environment):
        """Returns a job of two ranks that keeps checkpoints, its ranks, and a function that returns the steps of its checkpoints."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job, ranks = self.job(2, *arguments, script=self.SLOW + script.replace("global_batch=24", "global_batch=24, timeout=2"),
                              RINGMASTER_CHECKPOINT_DIR=folder.name, **environment)
        job.world(ranks)
        return job, ranks, lambda: [step for step in range(100) if any(
            name.endswith(f"-{step}") and not name.startswith(".") for name in os.listdir(folder.name))]

    def test_the_last_checkpoint_is_complete_however_long_it_takes(self):
        job, ranks, steps = self.kept(10, SLEEP="3")
        self.assertIn("done 10 ", self.finish(job, ranks))
        self.assertEqual(steps(), [10])

    def test_a_volume_that_takes_no_data_does_not_keep_the_job(self):
        job, ranks, steps = self.kept(10, SLEEP="600", STUCK="0.5")
        self.assertIn("done 10 ", self.finish(job, ranks))
        self.assertEqual(steps(), [])
        self.assertIn("training ends without a checkpoint of step 10: the volume took no data", job.logs())

    def test_a_last_checkpoint_that_is_due_waits_for_the_one_before_and_is_not_reported_as_skipped(self):
        job, ranks, steps = self.kept(10, SLEEP="3", RINGMASTER_CHECKPOINT_EVERY="5")
        self.assertIn("done 10 ", self.finish(job, ranks))
        self.assertEqual(steps(), [5, 10])
        self.assertNotIn("Skipped the checkpoint", job.logs())

    def test_a_first_rank_that_joins_after_the_last_step_writes_the_last_checkpoint(self):
        job, ranks, steps = self.kept(10, SLEEP="600", STUCK="0.5")
        job.wait_for(ranks, "RankDone")
        job.environment.update(SLEEP="0", STUCK="60")
        newcomer = job.start(2)
        job.wait_for([newcomer], "RankHello")
        job.switch()
        job.wait_for(ranks, "RankAtBoundary")
        job.world([newcomer, *ranks])
        self.assertIn("done 10 ", self.finish(job, [newcomer, *ranks]))
        self.assertEqual(steps(), [10])
        self.assertTrue(self.done(newcomer)["trained"])

    def test_a_job_that_starts_with_its_last_step_trains_nothing(self):
        job, ranks, _ = self.kept(10)
        self.finish(job, ranks)
        self.assertTrue(self.done(ranks[0])["trained"])
        again = [job.start(number) for number in range(2)]
        job.wait_for(again, "RankHello")
        job.world(again)
        self.finish(job, again)
        self.assertFalse(self.done(again[0])["trained"])

    def done(self, rank):
        return next(one for one in reversed(rank.said) if one["type"] == "RankDone")

    def test_a_checkpoint_that_is_due_when_the_world_changes_is_written(self):
        waits = "    while job.steps == 7 and job.world_size == 2 and not os.path.exists(sys.argv[2]):\n        time.sleep(0.01)\n"
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            job, ranks, steps = self.kept(12, go, script=TRAIN.replace("    job.backward(loss)", waits + "    job.backward(loss)"),
                                          RINGMASTER_CHECKPOINT_EVERY="8")
            for rank in ranks:
                job.wait_for_line(rank, "mean 7 ")
            job.switch()
            with open(go, "w", encoding="utf-8"):
                pass
            job.wait_for(ranks, "RankAtBoundary")
            self.assertEqual({one["step"] for one in ranks[0].said if one["type"] == "RankAtBoundary"}, {8})
            job.world(ranks)
            self.assertIn("done 12 ", self.finish(job, ranks))
            self.assertEqual(steps(), [8, 12])


class EndedEarly(ScriptTest):
    def finish_with_a_newcomer(self, loop):
        """Lets a rank join two ranks that wait in finish(): all three must end with the state of the two."""
        job, ranks = self.job(2, 300, script=BEGIN + loop + END)
        job.world(ranks)
        job.wait_for(ranks, "RankDone")
        newcomer = job.start(2)
        job.wait_for([newcomer], "RankHello")
        job.switch()
        job.wait_for(ranks, "RankAtBoundary")
        job.world([newcomer, *ranks])
        end = self.finish(job, [newcomer, *ranks])
        self.assertLess(int(end.split()[1]), 300)
        self.assertEqual(len(newcomer.lines), 1, "the newcomer made a step")

    def test_a_rank_that_joins_when_the_others_have_left_the_loop_makes_no_step(self):
        left = LOOP.replace("    if job.steps:", "    if job.loss < 1.0:\n        break\n    if job.steps:")
        self.finish_with_a_newcomer(left + "while not job.finish():\n    pass\n")

    def test_a_rank_that_joins_when_loops_of_ones_own_have_ended(self):
        self.finish_with_a_newcomer("""
while not job.finished:
    if job.finishing or job.loss < 1.0:
        job.finish()
        continue
    begin, end = job.begin()
    indices = [(24 * job.steps + place) % len(dataset) for place in range(begin, end)]
    job.backward(torch.nn.functional.cross_entropy(job.model(x[indices]), y[indices]), end - begin)
    job.step()
""")


    def test_ranks_that_leave_the_loop_at_different_places_of_the_same_step_end_together(self):
        places = ("    loss = torch", "    print(job.steps, loss")  # before backward(), and after it has begun to reduce
        for norm in ((), ("norm",)):
            script = "import ringmaster.buckets\nringmaster.buckets._FIRST_BYTES = ringmaster.buckets._BYTES = 64\n" + BEGIN + LOOP
            for rank, place in enumerate(places):
                script = script.replace(place, f"    if job.steps == 4 and job.rank == {rank}:\n        break\n{place}")
            job, ranks = self.job(2, 10, *norm, script=script + "while not job.finish():\n    pass\n" + END)
            job.world(ranks)
            self.assertIn("done 4 ", self.finish(job, ranks))

    def test_the_state_is_evaluated_once_whether_the_last_step_is_due_or_not(self):
        for every, expected in ((2, [2, 4]), (3, [3, 4])):
            script = BEGIN.replace("every=10", f"every={every}").replace("    def right(", "    def right(*of):\n"
                     "        print('evaluates', job.steps)\n        return part(*of)\n    def part(")
            script += LOOP.replace("    loss = torch", "    if job.steps == 4:\n        break\n    loss = torch")
            job, ranks = self.job(2, 10, "evaluate", script=script + "while not job.finish():\n    pass\n" + END)
            job.world(ranks)
            self.assertIn("done 4 ", self.finish(job, ranks))
            for rank in ranks:
                self.assertEqual([int(line.split()[1]) for _, line in rank.lines if line.startswith("evaluates")], expected)

    def test_a_rank_that_joins_the_end_has_not_frozen_what_the_others_have(self):
        left = LOOP.replace("    if job.steps:", "    if job.loss < 1.0:\n        break\n    if job.steps:")
        self.finish_with_a_newcomer("layers[0].requires_grad_(False)\n" + left + "while not job.finish():\n    pass\n")


class Mistakes(ScriptTest):
    # A loop of one's own. The last rank makes two steps, the others more.
    UNEQUAL = """
while job.steps < (2 if job.rank == job.world_size - 1 else 5):
    begin, end = job.begin()
    job.backward(torch.nn.functional.cross_entropy(job.model(x[begin:end]), y[begin:end]), end - begin)
    job.step()
job.finish()
"""

    def assert_unequal_ends(self, script, ranks, *variants, ended=None, step=2):
        """Asserts that the script fails on all ranks because rank `ended` ended after `step`, but the first other rank did not."""
        ended = ranks - 1 if ended is None else ended
        for code, log in self.end_of(script, ranks, variants):
            self.assertEqual(code, 2, log)
            self.assertIn(f"rank {ended} ended training after step {step}, but rank {int(ended == 0)} began step {step + 1}", log)

    def test_a_rank_that_ends_while_others_begin_a_step(self):
        self.assert_unequal_ends(BEGIN + self.UNEQUAL, 2, "10")
        self.assert_unequal_ends(BEGIN + self.UNEQUAL, 3, "10", "norm")

    def test_a_rank_that_ends_while_others_begin_a_step_and_evaluate(self):
        for every in (2, 3):  # due after the step, or only for the rank that ends
            self.assert_unequal_ends(BEGIN.replace("every=10", f"every={every}") + self.UNEQUAL, 3, "10", "evaluate")

    def test_a_rank_that_leaves_its_loop_while_others_reduce_gradients(self):
        several = "import ringmaster.buckets\nringmaster.buckets._FIRST_BYTES = ringmaster.buckets._BYTES = 64\n"
        for place in ("    loss = torch", "    print(job.steps, loss"):
            script = BEGIN.replace("every=10", "every=2") + LOOP.replace(
                place, f"    if job.rank == 0 and job.steps == 2:\n        break\n{place}") + "job.finish()\n"
            self.assert_unequal_ends(several + script, 3, "10", "norm", "evaluate", ended=0)

    def end_of(self, script, ranks=2, variants=()):
        """Runs the script in a world; returns each rank's exit code and error message."""
        job, started = self.job(ranks, *variants, script=script)
        job.world(started)
        ends = []
        for rank in started:
            code = rank.process.wait(60)
            with open(rank.log, encoding="utf-8") as file:
                ends.append((code, file.read()))
        return ends

    def test_models_that_differ_are_named_by_their_first_parameter(self):
        script = TRAIN.replace("Linear(16, 32)", "Linear(16, 32 + int(os.environ['EXTRA']))", 1)
        script = "import os\n" + script.replace("Linear(32, 4)", "Linear(32 + int(os.environ['EXTRA']), 4)")
        job = self.new_job(10, script=script, EXTRA="0")
        first = job.start(0)
        job.environment["EXTRA"] = "1"
        second = job.start(1)
        job.wait_for([first, second], "RankHello")
        job.world([first, second])
        for rank in (first, second):
            self.assertEqual(rank.process.wait(60), 2)
            with open(rank.log, encoding="utf-8") as file:
                self.assertIn("rank 0 has 'parameter 0.weight float32 [32, 16]' where rank 1 has 'parameter 0.weight "
                              "float32 [33, 16]'", file.read())

    def test_a_scheduler_that_a_rank_that_joins_does_not_take_over(self):
        script = TRAIN.replace('state={"scheduler": scheduler}', "state={}").replace(
            "StepLR(optimizer, step_size=10, gamma=0.9)", "LambdaLR(optimizer, lambda step: 1 / (1 + step))")
        job, ranks = self.job(2, 300, "slow", script=script)
        job.world(ranks[:1])
        job.wait_for_line(ranks[0], "8 ")
        job.switch()
        job.wait_for(ranks[:1], "RankAtBoundary")
        job.world(ranks)
        for rank in ranks:
            self.assertEqual(rank.process.wait(60), 2, job.logs())
        self.assertRegex(job.logs(), r"ranks differ: rank 0 has 'lr 0\.\d+ in group 0 of the optimizer' where rank 1 has 'lr "
                                     r"0\.\d+ in group 0 of the optimizer'; .* add schedulers to job\.state")

    def test_parameters_that_each_rank_changes_in_its_own_way_during_a_step(self):
        for script, name in (
            (TRAIN.replace("    job.backward(loss)", "    job.backward(loss)\n    other.step()").replace(
                "scheduler = torch", "other = torch.optim.SGD(model[2:].parameters(), lr=0.1)\nscheduler = torch"), "2.weight"),
            (TRAIN.replace("[torch.nn.Linear(16, 32)", "[torch.nn.Embedding(300, 2, max_norm=0.1), torch.nn.Flatten(), torch.nn."
                           "Linear(32, 32)").replace("job = rm", "dataset.tensors = torch.arange(4800).view(300, 16) // 16, y\njob = rm"),
             "0.weight"),
        ):
            for code, log in self.end_of(script, variants=["10"]):
                self.assertEqual(code, 2, log)
                self.assertIn(f"step 1: parameter {name} has other values on rank 1 than on rank 0, because the script changed it",
                              log)

    def test_a_loss_that_is_no_number_names_its_rank(self):
        script = TRAIN.replace("    job.backward(loss)", "    if job.rank == 1 and job.steps == 3:\n"
                                                         "        loss = loss * float('nan')\n    job.backward(loss)")
        for code, log in self.end_of(script, variants=["10"]):
            self.assertEqual(code, 2)
            self.assertIn("step 4: the loss of rank 1 is NaN or infinite", log)

    def test_a_rank_ends_with_its_own_exit_code(self):
        left = LOOP.replace("    loss = torch", "    if job.steps == 2:\n        break\n    loss = torch")
        for last, expected in (("raise SystemExit(3)", 3), ("import os\nos._exit(4)", 4), ("1 / 0", 1)):
            for code, log in self.end_of(BEGIN + left + last, variants=["10"]):
                self.assertEqual(code, expected, log)

    def test_data_that_differ_between_ranks(self):
        script = TRAIN.replace("dataset = torch", "x, y = (x[:200], y[:200]) if __import__('os').environ"
                                                  "['RINGMASTER_AGENT_SOCKET'].endswith('1.sock') else (x, y)\ndataset = torch")
        for code, log in self.end_of(script, variants=["10"]):
            self.assertEqual(code, 2)
            self.assertIn("data set of 300 samples", log)
            self.assertIn("data set of 200 samples", log)


if __name__ == "__main__":
    unittest.main()
