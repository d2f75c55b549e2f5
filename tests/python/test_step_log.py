"""Tests the step log: its lines, when they are written, and the callbacks."""

import io
import json
import math
import unittest

from ringmaster.errors import UserError
from ringmaster.step_log import StepLog, mlflow, tensorboard, wandb
from ringmaster.world import Epoch, Member, Progress, World

MEMBER = Member("u", "w-0", "n", "10.0.0.1", 0, "s")
WORLD = World(Epoch(1, 2), 0, (MEMBER, MEMBER))
NEXT = World(Epoch(1, 3), 0, (MEMBER,))


class StepLogTest(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        self.now = 100.0

    def log(self, *args):
        return StepLog(*args, out=self.out, clock=lambda: self.now)

    def lines(self):
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def steps(self):
        return [line["step"] for line in self.lines()]

    def test_a_line_has_the_trainers_fields_and_the_scripts_metrics(self):
        log = self.log(1)
        log.add({"lr": 0.1, "grad_norm": 2})
        log.applied(Progress(7, samples_per_second=1234.56, loss=0.1234567891234), WORLD)
        self.assertEqual(
            self.out.getvalue(),
            '{"step":7,"loss":0.123456789,"samples_per_second":1234.6,"lr":0.1,"grad_norm":2.0,'
            '"world_size":2,"world_epoch":[1,2]}\n',
        )

    def test_writes_every_so_many_steps_and_the_first_of_a_world(self):
        log = self.log(10)
        for step in range(1, 24):
            log.applied(Progress(step), WORLD if step < 15 else NEXT)
        self.assertEqual(self.steps(), [1, 10, 15, 20])

    def test_writes_once_a_second(self):
        log = self.log()
        for step in range(1, 30):
            log.applied(Progress(step), WORLD)
            self.now += 0.125
        self.assertEqual(self.steps(), [1, 9, 17, 25])

    def test_metrics_wait_for_the_next_line_and_the_newest_counts(self):
        log = self.log(10)
        log.applied(Progress(1), WORLD)
        log.add({"accuracy": 0.5, "lr": 1})
        log.applied(Progress(2), WORLD)
        log.add({"lr": 2})
        log.applied(Progress(10), WORLD)
        log.applied(Progress(20), WORLD)
        _, tenth, twentieth = self.lines()
        self.assertEqual((tenth["accuracy"], tenth["lr"]), (0.5, 2.0))
        self.assertNotIn("lr", twentieth)

    def test_what_is_not_finite_is_null(self):
        log = self.log(1)
        log.add({"x": math.inf})
        log.applied(Progress(1, loss=math.nan), WORLD)
        (line,) = self.lines()
        self.assertIsNone(line["loss"])
        self.assertIsNone(line["x"])

    def test_refuses_what_is_not_a_number_and_its_own_names(self):
        log = self.log(1)
        with self.assertRaisesRegex(UserError, "not a number"):
            log.add({"lr": "high"})
        with self.assertRaisesRegex(UserError, "another name"):
            log.add({"loss": 1})

    def test_callbacks_get_each_step_that_is_written(self):
        log = self.log(2)
        calls = []
        log.add_callback(lambda *call: calls.append(call))
        log.add({"lr": 0.5})
        log.applied(Progress(2, loss=3.0, samples_per_second=4.0), WORLD)
        log.applied(Progress(3), WORLD)
        self.assertEqual(calls, [(2, {"loss": 3.0, "samples_per_second": 4.0, "lr": 0.5, "world_size": 2.0})])

    def test_ready_callbacks_speak_to_their_services(self):
        calls = []

        class Service:
            def add_scalar(self, name, value, step):
                calls.append(("scalar", name, value, step))

            def log_metrics(self, metrics, step):
                calls.append(("mlflow", metrics, step))

            def log(self, metrics, step):
                calls.append(("wandb", metrics, step))

        for make in (tensorboard, mlflow, wandb):
            make(Service())(7, {"loss": 1.0})
        expected = [("scalar", "loss", 1.0, 7), ("mlflow", {"loss": 1.0}, 7), ("wandb", {"loss": 1.0}, 7)]
        self.assertEqual(calls, expected)


if __name__ == "__main__":
    unittest.main()
