"""Tests scripts that use the package wrongly or as they would use plain PyTorch, and what a failed step has changed. Each script runs
in a separate process."""

import importlib
import os
import sys
import traceback
import unittest

from ringmaster import RingmasterError

importlib.import_module("torch._dynamo")  # before the forks; an optimizer's first step imports it

BEGIN = """
import sys
import torch
import ringmaster as rm

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
y = (x[:, 0] > 0).long()
dataset = torch.utils.data.TensorDataset(x, y)
loss_fn = torch.nn.functional.cross_entropy
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""

# Each is the script of a single rank, and the text of its error.
REFUSED = {
    "optimizer.step() by habit": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    optimizer.step()
""", "the script called optimizer.step()"),
    "clipping what is not yet summed": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.001)
""", "changed gradients between job.backward() and the step"),
    "zeros between micro-batches": ("""
job = rm.join(model, optimizer, global_batch=8, micro_batch=4)
for batch in job.batches(dataset, steps=2):
    optimizer.zero_grad(set_to_none=False)
    job.backward(loss_fn(model(batch.x), batch.y))
""", "changed gradients between job.backward() and the step"),
    "backward() of another loss, and zero_grad()": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    model(batch.x).square().mean().backward()
    optimizer.zero_grad()
    job.backward(loss_fn(model(batch.x), batch.y))
""", "the script called backward() of a loss before job.backward()"),
    "backward() of another loss after the last micro-batch": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    model(batch.x).square().mean().backward()
""", "add losses instead of calling backward() of each"),
    "backward() of another loss between micro-batches": ("""
job = rm.join(model, optimizer, global_batch=8, micro_batch=4)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    model(batch.x).square().mean().backward()
""", "as clip_grad_norm_(), zero_grad() and backward() of another loss do"),
    "two losses of one micro-batch": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    job.backward(loss_fn(model(batch.x), batch.y))
""", "backward() was called twice for one micro-batch"),
    "a step before its last micro-batch": ("""
job = rm.join(model, optimizer, global_batch=8, micro_batch=4)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y))
    job.step()
""", "step() was called while 4 samples of the step remained"),
    "a step without backward()": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    loss_fn(model(batch.x), batch.y)
""", "step 1 was made without job.backward()"),
    "a loss without a graph": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y).detach())
""", "a loss that does not require a gradient"),
    "a negative weight": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2):
    job.backward(loss_fn(model(batch.x), batch.y), weight=-1)
""", "the weight -1"),
    "a custom loop without the number of samples": ("""
job = rm.join(model, optimizer, global_batch=8)
begin, end = job.begin()
job.backward(loss_fn(model(x[begin:end]), y[begin:end]))
""", "backward() was called without a weight in a custom loop"),
    "LBFGS": ("""
job = rm.join(model, torch.optim.LBFGS(model.parameters()), global_batch=8)
""", "LBFGS computes the loss several times per step"),
    "parameters of another module": ("""
job = rm.join(model, torch.optim.SGD([*model.parameters(), torch.nn.Parameter(torch.zeros(1))], lr=0.1), global_batch=8)
""", "group 0 of the optimizer has parameters that the model does not have"),
    "sparse gradients": ("""
model = torch.nn.EmbeddingBag(10, 2, sparse=True)
job = rm.join(model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=8)
for batch in job.batches(dataset, steps=2):
    optimizer.zero_grad()
    model.zero_grad()
    job.backward(loss_fn(model(batch.y.view(-1, 1)), batch.y))
""", "is sparse"),
    "complex parameters": ("""
model = torch.nn.Linear(8, 2, dtype=torch.complex64)
job = rm.join(model, torch.optim.SGD(model.parameters(), lr=0.1), global_batch=8)
""", "parameter weight is complex64"),
    "parameters that are added to the optimizer during training": ("""
model.append(torch.nn.Linear(2, 2))
job = rm.join(model, torch.optim.SGD(model[:3].parameters(), lr=0.1), global_batch=8)
for batch in job.batches(dataset, steps=4):
    if job.steps == 2:
        job.optimizer.add_param_group({"params": model[3].parameters()})
    job.backward(loss_fn(model(batch.x), batch.y))
""", "groups had [4] parameters at join() and have [4, 2] now"),
    "a number in job.state": ("""
job = rm.join(model, optimizer, global_batch=8)
job.state["best"] = 0.5
""", "job.state['best'] is a float, without state_dict()"),
    "a number in the state that join() is given": ("""
job = rm.join(model, optimizer, global_batch=8, state={"best": 0.5})
""", "job.state['best'] is a float, without state_dict()"),
    "an optimizer with an object in its state": ("""
class Projected(torch.optim.SGD):
    def step(self):
        super().step()
        for parameter in model.parameters():
            self.state[parameter]["projector"] = object()
job = rm.join(model, Projected(model.parameters(), lr=0.1), global_batch=8)
for batch in job.batches(dataset, steps=4):
    assert job.steps == 0, "it trains on with a state that no other rank can read"
    job.backward(loss_fn(model(batch.x), batch.y))
""", "optimizer: 0: projector is a builtins.object, which can be neither saved nor sent to another rank"),
    "a state of its own type": ("""
import collections
class Tracker:
    def __init__(self, kind): self.best = kind(0.5, 3)
    def state_dict(self): return {"of": [self.best]}
    def load_state_dict(self, state): self.best = state["of"][0]
job = rm.join(model, optimizer, global_batch=8)
job.state["tracker"] = Tracker(collections.namedtuple("Best", "loss step"))
for batch in job.batches(dataset, steps=2):
    pass
""", "job.state: tracker: of: 0 is a __main__.Best, which can be neither saved nor sent to another rank"),
    "two loops, the first of which ended training": ("""
job = rm.join(model, optimizer, global_batch=8)
for steps in (2, 4):
    for batch in job.batches(dataset, steps=steps):
        job.backward(loss_fn(model(batch.x), batch.y))
""", "after training ended with step 2"),
    "two loops at once": ("""
job = rm.join(model, optimizer, global_batch=8)
for batch, other in zip(job.batches(dataset, steps=2), job.batches(dataset, steps=2)):
    pass
""", "within another loop"),
}

# Each of these scripts succeeds.
ACCEPTED = {
    "zero_grad() by habit, before and after, in micro-batches": """
def train(habit):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    job = rm.join(model, optimizer, global_batch=8, micro_batch=3)
    for batch in job.batches(dataset, steps=5):
        if habit:
            optimizer.zero_grad()
        job.backward(loss_fn(model(batch.x), batch.y))
        if habit:
            model.zero_grad()
    return model.weight.detach()
assert torch.equal(train(False), train(True))
""",
    "layers that thaw after a backward pass, in micro-batches": """
def train(micro_batch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    model[0].requires_grad_(False)
    job = rm.join(model, torch.optim.AdamW(model.parameters(), lr=0.1), global_batch=8, micro_batch=micro_batch)
    for batch in job.batches(dataset, steps=5):
        job.backward(loss_fn(model(batch.x), batch.y))
        if job.steps == 2:
            model[0].requires_grad_(True)
    return model[0].weight.detach()
assert torch.allclose(train(8), train(4), atol=1e-5)
""",
    "two loops": """
job = rm.join(model, optimizer, global_batch=8)
for steps, last in ((2, False), (4, True)):
    for batch in job.batches(dataset, steps=steps, finish=last):
        job.backward(loss_fn(model(batch.x), batch.y))
assert job.steps == 4
""",
    "a model that is converted before training ends": """
job = rm.join(model, optimizer, global_batch=8)
for batch in job.batches(dataset, steps=2, finish=False):
    job.backward(loss_fn(model(batch.x), batch.y))
model.zero_grad()
model.bfloat16()
assert job.finish()
""",
    "a DataLoader in the order of its data set, with a worker process": """
import os
class Whose(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, index): return x[index], os.getpid()
job = rm.join(model, optimizer, global_batch=8)
for number, batch in enumerate(job.batches(torch.utils.data.DataLoader(Whose(), batch_size=8, num_workers=1), steps=3)):
    assert batch.indices == [place % 16 for place in range(8 * number, 8 * number + 8)], batch.indices
    assert os.getpid() not in batch.y.tolist()
    job.backward(model(batch.x).square().mean())
""",
    "weights of tensors, and of nothing": """
job = rm.join(model, optimizer, global_batch=8, micro_batch=4)
for number, batch in enumerate(job.batches(dataset, steps=3)):
    loss = loss_fn(model(batch.x), batch.y)
    job.backward(loss * float("nan") if number % 2 else loss, weight=torch.tensor(0 if number % 2 else 7))
assert all(torch.isfinite(values).all() for values in model.parameters())
""",
    "clipping before the update": """
job = rm.join(model, torch.optim.SGD(model.parameters(), lr=1.0), global_batch=8)
norms = []
job.before_update(lambda: norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)))
before = [values.detach().clone() for values in model.parameters()]
for batch in job.batches(dataset, steps=1):
    job.backward(loss_fn(model(batch.x), batch.y))
moved = sum(((a - b) ** 2).sum() for a, b in zip(before, model.parameters())).sqrt()
assert len(norms) == 1 and norms[0] > 0.01 and abs(moved - 0.01) < 1e-4, (norms, moved)
""",
    "layers that thaw, have no gradient, are tied, mixed, transposed and channels_last": """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 4, 3, padding=1).to(memory_format=torch.channels_last)
        self.wide = torch.nn.Linear(4, 8, dtype=torch.float64)
        self.narrow = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
        self.tied = torch.nn.Linear(8, 8)
        self.tied_too = torch.nn.Linear(8, 8)
        self.tied_too.weight = self.tied.weight
        self.transposed = torch.nn.Parameter(torch.randn(2, 8).t())
        self.never = torch.nn.Linear(3, 3)
    def forward(self, x):
        x = self.first(x.view(-1, 1, 2, 4)).mean((2, 3))
        x = self.narrow(self.wide(x.double()).bfloat16()).float()
        return self.tied_too(self.tied(x)) @ self.transposed
model = Net()
plain = Net()
plain.load_state_dict(model.state_dict())
for net in (model, plain):
    net.wide.requires_grad_(False)
for fused in (False, True):
    options = dict(lr=1e-2, weight_decay=0.1, fused=fused, foreach=False)
    groups = lambda net: [{"params": list(net.first.parameters())}, {"params": [p for n, p in net.named_parameters()
                          if not n.startswith("first")], "lr": 1e-3}]
    optimizer, other = (torch.optim.AdamW(groups(net), **options) for net in (model, plain))
    job = rm.join(model, optimizer, global_batch=8)
    for batch in job.batches(dataset, steps=4):
        for net in (model, plain):
            net.wide.requires_grad_(job.steps >= 2)
        job.backward(loss_fn(model(batch.x), batch.y))
        other.zero_grad()
        loss_fn(plain(batch.x), batch.y).backward()
        other.step()
    for (name, a), b in zip(model.named_parameters(), plain.parameters()):
        assert torch.allclose(a, b, atol=1e-5), (fused, name, (a - b).abs().max())
""",
    "a scheduler that is handed over later": """
from ringmaster.state import Extras
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
scheduler.last_epoch = 3
extras = Extras({})
optimizer.param_groups[0]["lr"] = 0.025
extras.load({"scheduler": scheduler.state_dict()}, optimizer)
later = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
assert optimizer.param_groups[0]["lr"] == 0.1
extras["scheduler"] = later
assert later.last_epoch == 3 and optimizer.param_groups[0]["lr"] == 0.025
for add in (Extras.update, Extras.__ior__, lambda extras, parts: extras.setdefault("best", parts["best"])):
    extras = Extras({})
    extras.load({"best": scheduler.state_dict()}, optimizer)
    add(extras, {"best": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))})
    assert extras["best"].last_epoch == 3 and optimizer.param_groups[0]["lr"] == 0.025 and not extras.unclaimed
""",
    "a scheduler that follows the loss of each step": """
job = rm.join(model, optimizer, global_batch=8)
seen, losses = [], []
job.before_update(lambda: seen.append(job.loss))
job.after_step(lambda: seen.append(job.loss))
for batch in job.batches(dataset, steps=3):
    loss = loss_fn(model(batch.x), batch.y)
    losses += [loss.item()] * 2
    job.backward(loss)
assert seen == losses, (seen, losses)
""",
    "a tracker that takes long": """
job = rm.join(model, optimizer, global_batch=8)
phases = []
job.on_log(lambda step, metrics: phases.append(job._position._phase.name))
for batch in job.batches(dataset, steps=1):
    job.backward(loss_fn(model(batch.x), batch.y))
assert phases == ["EVALUATE"], phases
""",
    "layers that stay in evaluation mode": """
model.append(torch.nn.BatchNorm1d(2).eval())
job = rm.join(model, optimizer, global_batch=8)
job.evaluate(lambda model, rank, size: (float(any(module.training for module in model.modules())), 1), every=1, name="training")
before = model[3].running_mean.clone()
for batch in job.batches(dataset, steps=3):
    job.backward(loss_fn(model(batch.x), batch.y))
    assert [module.training for module in model] == [True, True, True, False]
assert model.training and torch.equal(model[3].running_mean, before)
""",
    "layers that change their weights for an evaluation, one of which stays in evaluation mode": """
class Merged(torch.nn.Linear):
    merged, changes = False, 0
    def train(self, mode=True):
        if self.merged == mode:
            self.merged, self.changes = not mode, self.changes + 1
            self.weight.data *= 2 if self.merged else 0.5
        return super().train(mode)
model.append(Merged(2, 2)).append(Merged(2, 2).eval())
before = [layer.weight.clone() for layer in model[3:]]
job = rm.join(model, optimizer, global_batch=8)
def merged(model, rank, size):
    assert model[3].merged and model[4].merged
    return 1, 1
job.evaluate(merged, every=1)
for batch in job.batches(dataset, steps=3):
    job.backward(loss_fn(model(batch.x), batch.y))
    assert [module.training for module in model] == [True] * 4 + [False]
    assert not model[3].merged and model[4].merged
assert model.training and model[3].changes == 6
assert all(torch.equal(layer.weight, weight) for layer, weight in zip(model[3:], before))
""",
    "what is put back, and what a checkpoint has meanwhile": """
model.append(torch.nn.BatchNorm1d(2))
model.register_buffer("mask", torch.ones(3))
model.register_buffer("codes", torch.ones(3, dtype=torch.bfloat16))
model.register_buffer("center", torch.full((2, 1), float("nan")))
model.register_buffer("count", torch.tensor(0))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
from ringmaster.state import Extras, TrainingState
state = TrainingState(model, optimizer, Extras({"scheduler": scheduler}))
import copy, warnings
warnings.simplefilter("ignore")
def image(): return copy.deepcopy(state.as_dict())
def same(a, b): return repr(a) == repr(b)
before = image()
state.remember()
model(x)
model.mask *= 2
model.codes.data.mul_(2)  # has no new version
model.center = torch.ones(5, 1)
assert state.changed_buffers() == [0, 1, 2]
scheduler.step()
assert optimizer.param_groups[0]["lr"] == 0.05
assert same(before, image())
state.put_back()
assert same(before, image()) and optimizer.param_groups[0]["lr"] == 0.1 and scheduler.last_epoch == 0
state.remember()
model(x)
assert state.changed_buffers() == []
state.certain()
assert not same(before, image())
""",
}


class Habits(unittest.TestCase):
    def run_alone(self, script):
        """Runs the script in a fork of this process, which has imported torch; returns its exit code and output."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(writer, 2)
            code = 0
            try:
                exec(compile(BEGIN + script, "script", "exec"), {"__name__": "__main__"})
            except RingmasterError as error:
                print(error, file=sys.stderr)
                code = error.exit_code
            except BaseException:
                traceback.print_exc()
                code = 1
            sys.stderr.flush()
            os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as file:
            said = file.read()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said

    def test_what_is_refused_says_why(self):
        for name, (script, says) in REFUSED.items():
            with self.subTest(name):
                code, log = self.run_alone(script)
                self.assertIn(says, log)
                self.assertEqual(code, 2, log)

    def test_what_is_accepted_trains_as_it_would_alone(self):
        for name, script in ACCEPTED.items():
            with self.subTest(name):
                code, log = self.run_alone(script)
                self.assertEqual(code, 0, log)


if __name__ == "__main__":
    unittest.main()
