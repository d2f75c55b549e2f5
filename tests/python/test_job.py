"""Scripts that train with the package, as processes: worlds that change, and what they compute."""

import os
import tempfile
import unittest

from fake_job import FakeJob
from programs import TRAIN

STEPS = 100


class ScriptTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def job(self, ranks, *arguments, script=TRAIN, environment=None):
        audit = os.path.join(self.folder.name, "audit")
        job = FakeJob(self.folder.name, script, {"RINGMASTER_AUDIT_LOG": audit, **(environment or {})},
                      [str(one) for one in arguments])
        self.addCleanup(job.close)
        started = [job.start(number) for number in range(ranks)]
        job.wait_for(started, "RankHello")
        return job, started

    def finish(self, job, ranks):
        """Until all ranks are done; returns what they printed last, and the mean loss of each step by all of them."""
        job.wait_for(ranks, "RankDone")
        job.release()
        for rank in ranks:
            job.wait_for_line(rank, "done")
            self.assertEqual(rank.process.wait(30), 0, job.logs())
        ends = {rank.lines[-1][1] for rank in ranks}
        self.assertEqual(len(ends), 1, f"ranks end with different states: {ends}\n" + job.logs())
        return ends.pop()

    def kill_and_join(self, job, ranks):
        """Of three ranks, two in the world: the first is killed, the third joins. Returns what finish() does."""
        job.wait_for_line(ranks[0], "8 ")
        job.kill(ranks[0])
        job.wait_until_lost(ranks[0])
        job.world(ranks[1:2])
        job.wait_for_line(ranks[1], "12 ")
        job.switch()
        job.wait_for(ranks[1:2], "RankAtBoundary")
        job.world(ranks[1:])
        return self.finish(job, ranks[1:])

    def losses(self, job):
        """Of each step, as rank 0 reported it or computed it."""
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
        """Of each step but the last, the mean over the global batch, as all ranks have it."""
        found = {}
        for rank in ranks:
            for _, line in rank.lines:
                if line.startswith("mean "):
                    _, step, loss = line.split()
                    self.assertEqual(found.setdefault(int(step), loss), loss)
        return {step: float(loss) for step, loss in found.items()}

    def undisturbed(self, steps, *variants):
        """The losses of one rank alone in its world."""
        with tempfile.TemporaryDirectory() as folder:
            job = FakeJob(folder, TRAIN, None, [str(steps), *variants])
            self.addCleanup(job.close)
            rank = job.start(0)
            job.wait_for([rank], "RankHello")
            job.world([rank])
            self.finish(job, [rank])
            return self.mean_losses([rank])

    def assert_same_curve(self, losses, expected):
        self.assertEqual(losses.keys(), expected.keys())
        for step, loss in expected.items():
            self.assertAlmostEqual(losses[step], loss, delta=1e-4)


class Training(ScriptTest):
    def test_worlds_of_one_two_and_three_ranks_have_the_same_curve(self):
        expected = self.undisturbed(STEPS)
        self.assertEqual(len(expected), STEPS - 1)
        job, ranks = self.job(3, STEPS)
        job.world(ranks)
        self.finish(job, ranks)
        self.assert_same_curve(self.mean_losses(ranks), expected)
        with tempfile.TemporaryDirectory() as folder:
            self.folder.name, name = folder, self.folder.name
            job, ranks = self.job(2, STEPS, "micro")
            job.world(ranks)
            self.finish(job, ranks)
            self.assert_same_curve(self.mean_losses(ranks), expected)
            self.folder.name = name

    def test_a_killed_rank_costs_no_step_and_a_new_one_takes_over_the_state(self):
        job, ranks = self.job(3, 300, "slow", "evaluate")
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.kill(ranks[1])
        job.wait_until_lost(ranks[1])
        left = [ranks[0], ranks[2]]
        job.world(left)
        newcomer = job.start(1)
        job.wait_for([newcomer], "RankHello")
        job.switch()
        job.wait_for(left, "RankAtBoundary")
        job.world([*left, newcomer])
        end = self.finish(job, [*left, newcomer])
        self.assertIn("done 300 ", end)
        self.assertTrue(end.endswith(" 300"), end)  # the scheduler's steps
        for rank in left:  # every step in order, a repeated one more than once
            steps = [int(line.split()[0]) for _, line in rank.lines if line[0].isdigit()]
            self.assertEqual(steps, sorted(steps))
            self.assertEqual(set(steps), set(range(300)))
        self.assert_same_curve(self.mean_losses(left), self.undisturbed(300))

    def test_a_stopped_rank_holds_nobody_up_once_the_launcher_says_so(self):
        job, ranks = self.job(3, 200, "slow", "norm", "dropout")
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.stop(ranks[0])
        job.world(ranks[1:])
        self.assertIn("done 200 ", self.finish(job, ranks[1:]))

    def test_micro_batches_stay_small_in_a_small_world(self):
        job, ranks = self.job(2, 200, "micro", "slow")
        job.world(ranks)
        job.wait_for_line(ranks[0], "10 ")
        job.kill(ranks[1])
        job.wait_until_lost(ranks[1])
        job.world(ranks[:1])
        self.finish(job, ranks[:1])
        sizes = {int(line.split()[2]) for _, line in ranks[0].lines if line[0].isdigit()}
        self.assertLessEqual(max(sizes), 5)

    def test_ranks_with_unequal_micro_batches_agree_on_buffers(self):
        script = TRAIN.replace("job = rm.join(", "model.register_buffer('seen', torch.zeros(1))\njob = rm.join(").replace(
            "    job.backward(loss)", "    model.seen += batch.x.sum()\n    job.backward(loss)").replace("=24", "=26")
        job, ranks = self.job(3, 60, "norm", "micro", "slow", script=script)
        job.world(ranks)
        job.wait_for_line(ranks[0], "20 ")
        job.world(list(reversed(ranks)))
        self.assertIn("done 60 ", self.finish(job, ranks))

    def test_a_rank_that_computes_for_longer_than_connecting_may_take(self):
        script = TRAIN.replace("global_batch=24", "global_batch=24, timeout=2").replace(
            "    job.backward(loss)", "    if job.rank == 0 and job.steps == 3:\n        time.sleep(3)\n    job.backward(loss)")
        job, ranks = self.job(2, 6, script=script)
        job.world(ranks)
        self.assertIn("done 6 ", self.finish(job, ranks))
        self.assertFalse([one for rank in ranks for one in rank.said if one["type"] == "RankBroken"])

    def test_a_script_alone_trains_without_an_agent(self):
        job = FakeJob(self.folder.name, TRAIN, None, ["10"])
        self.addCleanup(job.close)
        rank = job.start(0, agent=False)
        job.wait_for_line(rank, "done 10 ")
        self.assertEqual(rank.process.wait(30), 0)


class Mistakes(ScriptTest):
    def end_of(self, script, ranks=2, variants=()):
        """Runs it in a world; returns each rank's exit code and what it printed as its error."""
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
        job = FakeJob(self.folder.name, script, {"EXTRA": "0"}, ["10"])
        self.addCleanup(job.close)
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

    def test_a_loss_that_is_no_number_names_its_rank(self):
        script = TRAIN.replace("    job.backward(loss)", "    if job.rank == 1 and job.steps == 3:\n"
                                                         "        loss = loss * float('nan')\n    job.backward(loss)")
        for code, log in self.end_of(script, variants=["10"]):
            self.assertEqual(code, 2)
            self.assertIn("step 4: the loss of rank 1 is not a finite number", log)

    def test_a_step_without_backward(self):
        for code, log in self.end_of(TRAIN.replace("    job.backward(loss)\n", ""), variants=["10"]):
            self.assertEqual(code, 2)
            self.assertIn("step 1 was made without job.backward()", log)

    def test_data_that_differ_between_ranks(self):
        script = TRAIN.replace("dataset = torch", "x, y = (x[:200], y[:200]) if __import__('os').environ"
                                                  "['RINGMASTER_AGENT_SOCKET'].endswith('1.sock') else (x, y)\ndataset = torch")
        for code, log in self.end_of(script, variants=["10"]):
            self.assertEqual(code, 2)
            self.assertIn("data set of 300 samples", log)
            self.assertIn("data set of 200 samples", log)


if __name__ == "__main__":
    unittest.main()
