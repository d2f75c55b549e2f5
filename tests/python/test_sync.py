"""Tests how ranks get the same state: a rank uses another rank's state only if that state fits. The
ranks are threads."""

import enum
import threading
import unittest
from collections import Counter
from unittest import mock

import torch
from fake_agent import LIMIT, Call
from ringmaster.checkpoint_content import copied
from ringmaster.errors import UserError
from ringmaster.packed import Packed, pack, unpack
from ringmaster.position import Position
from ringmaster.state import Extras, LocalState, StateVersion, TrainingState
from ringmaster.sync import StateSync
from ringmaster.world import Epoch

TRAINED = LocalState(StateVersion(Epoch(1, 1), 3), origin="training", loss=0.1)


class Wire:
    """A fake communicator of two ranks, which are threads."""

    device = torch.device("cpu")
    size = 2

    def __init__(self, rank, barrier, shared):
        self.rank, self._barrier, self._shared = rank, barrier, shared

    def all_gather(self, tensor):
        self._shared[self.rank] = tensor
        self._barrier.wait(LIMIT)
        gathered = [tensor.clone() for tensor in self._shared]
        self._barrier.wait(LIMIT)
        return gathered

    def broadcast(self, tensor, source):
        tensor.copy_(self.all_gather(tensor)[source])


class SenderState(TrainingState):
    """A state that sends data that the test has changed."""

    def as_dict(self):
        state = super().as_dict()
        self.change(state)
        return state


class Sync(unittest.TestCase):
    def sync(self, change=lambda state: None):
        """Lets rank 1 join rank 0, which has trained. Returns the models of both ranks; if both raise the same exception, raises it."""
        barrier, shared = threading.Barrier(2), [None, None]
        runs, models = [], []
        for rank in range(2):
            torch.manual_seed(rank)
            models.append(torch.nn.Linear(3, 2))
            optimizer = torch.optim.AdamW(models[-1].parameters())
            if rank == 0:
                models[0](torch.ones(3)).sum().backward()
                optimizer.step()
            state = (TrainingState if rank else SenderState)(models[-1], optimizer, Extras({}))
            state.change = change
            runs.append(StateSync(Wire(rank, barrier, shared), state, LocalState() if rank else TRAINED, "", Position.open(),
                                  None, lambda attempt: None).run)
        calls = [Call(run) for run in runs]
        errors = []
        for call in calls:
            try:
                held = call.result().held
                self.assertEqual((held, held.loss), (TRAINED, TRAINED.loss))
            except UserError as error:
                errors.append(str(error))
        if errors:
            self.assertEqual(errors, errors[:1] * 2)
            raise UserError(errors[0])
        return models

    def test_a_rank_that_joins_takes_the_state_over(self):
        first, second = self.sync(lambda state: state["extras"].update(ema=[torch.ones(5), {"n": 1}]))
        self.assertTrue(torch.equal(first.weight, second.weight))

    def test_numbers_and_texts_of_other_types_become_plain(self):
        class Kind(str, enum.Enum):
            LINEAR = "linear"

        class Number(float):  # as NumPy's float64 is
            pass

        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=Number(0.5))
        sent = Packed.from_bytes(pack([optimizer.state_dict(), {Kind.LINEAR: Kind.LINEAR}]).to_bytes())
        groups, kinds = unpack(sent)[0]["param_groups"], unpack(sent)[1]
        self.assertEqual((groups[0]["lr"], kinds), (0.5, {"linear": "linear"}))
        self.assertEqual({type(value) for value in (*kinds, *kinds.values())}, {str})

    def test_a_rank_that_has_loaded_the_others_state_knows_that_they_have_trained_it(self):
        barrier, shared = threading.Barrier(2), [None, None]
        model = torch.nn.Linear(3, 2)
        state = TrainingState(model, torch.optim.AdamW(model.parameters()), Extras({}))
        loaded = LocalState(TRAINED.version, term_base=1, origin="checkpoint")
        calls = [Call(StateSync(Wire(rank, barrier, shared), state, held, "", Position.open(), None, lambda attempt: None).run)
                 for rank, held in enumerate((loaded, TRAINED))]
        for call in calls:
            self.assertEqual(call.result().held, TRAINED)

    def test_a_loaded_state_is_the_one_that_was_sent(self):
        class Half(torch.nn.Linear):
            def __init__(self):
                super().__init__(3, 2, dtype=torch.bfloat16)
                optimizer = torch.optim.AdamW(self.parameters())
                last = torch.optim.lr_scheduler
                scheduler = last.SequentialLR(optimizer, [last.LinearLR(optimizer), last.MultiStepLR(optimizer, [4, 9])], [2])
                self.state = TrainingState(self, optimizer, Extras({"scheduler": scheduler}))

        sender, receiver = Half(), Half()
        sender(torch.ones(3, dtype=torch.bfloat16)).sum().backward()
        sender.state.optimizer.step()
        for values in sender.state.optimizer.state.values():
            values["exp_avg"] = torch.rand(values["exp_avg"].shape)  # float32, as some optimizers keep it
        for received in (unpack(pack(sender.state.as_dict())), copied(sender.state.as_dict())):
            receiver.state.load(received)
            self.assertEqual(receiver.state.checksum(), sender.state.checksum())
            scheduler = receiver.state.extras["scheduler"]
            self.assertEqual(scheduler._schedulers[1].milestones, Counter([4, 9]))
            for _ in range(3):
                receiver.state.optimizer.step()
                scheduler.step()

    def test_a_loaded_state_of_another_precision_takes_the_types_of_this_model(self):
        for kinds in ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)):
            models = [torch.nn.Linear(3, 2, dtype=kind) for kind in kinds]
            states = [TrainingState(model, torch.optim.AdamW(model.parameters()), Extras({})) for model in models]
            for model, state in zip(models, states):
                if state is states[1]:
                    state.load(copied(states[0].as_dict()))
                model(torch.ones(3, dtype=model.weight.dtype)).sum().backward()
                state.optimizer.step()
            values = states[1].optimizer.state[models[1].weight]
            self.assertEqual((values["exp_avg"].dtype, values["exp_avg_sq"].dtype, values["step"]), (kinds[1], kinds[1], 2))

    def test_a_state_that_is_too_large_is_refused_before_there_is_memory_for_it(self):
        huge = torch.empty(1 << 45, device="meta")
        for change, name in (
            (lambda state: state["extras"].update(ema={"a": torch.ones(2), "b": [huge]}), r"job\.state\['ema'\]\['b'\]\[0\]"),
            (lambda state: state["optimizer"]["state"][1].update(exp_avg=huge), r"optimizer\['state'\]\[1\]\['exp_avg'\]"),
        ):
            with self.assertRaisesRegex(UserError, "larger than 4294967808 bytes.* with " + name + ", torch.float32"):
                self.sync(change)

    def test_tensors_of_another_model_are_refused_by_name(self):
        for tensor, says in (
            (torch.zeros(2, 3, dtype=torch.float64), "its weight is torch.float64 instead of torch.float32"),
            (torch.empty(1 << 45, 3, device="meta"), "its weight has the shape"),
            (None, "it has no weight"),
        ):
            def change(state):
                if tensor is None:
                    del state["model"]["weight"]
                else:
                    state["model"]["weight"] = tensor

            with self.assertRaisesRegex(UserError, says):
                self.sync(change)

    def test_a_long_text_is_refused(self):
        with mock.patch("ringmaster.sync._TEXT_BYTES", 1 << 20):
            with self.assertRaisesRegex(UserError, "bytes of names and plain values, more than 1 MiB"):
                self.sync(lambda state: state["extras"].update(seen="x" * (2 << 20)))


if __name__ == "__main__":
    unittest.main()
