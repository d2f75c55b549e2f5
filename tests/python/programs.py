"""Scripts that the ranks of fake_job.py run."""

# In turn: prints "STEP LOSS" for each micro-batch, "done" and the parameters' sum at the end. Arguments: steps, and names of variants.
BEGIN = """
import hashlib, sys, time
import torch
import ringmaster as rm
from ringmaster.transport import buffer_of

steps, variants = int(sys.argv[1]), set(sys.argv[2:])
torch.manual_seed(0)
layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)]
if "norm" in variants:
    layers.insert(1, torch.nn.BatchNorm1d(32))
if "dropout" in variants:
    layers.insert(2, torch.nn.Dropout(0.2))
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.9)
generator = torch.Generator().manual_seed(1)
x = torch.randn(300, 16, generator=generator)
y = (x[:, :4] * 2).argmax(1)
dataset = torch.utils.data.TensorDataset(x, y)
job = rm.join(model, optimizer, global_batch=24, micro_batch=5 if "micro" in variants else None,
              state={"scheduler": scheduler})
job.after_step(scheduler.step)
if "evaluate" in variants:
    def right(model, rank, size):
        return (model(x[rank::size]).argmax(1) == y[rank::size]).sum(), len(x[rank::size])
    job.evaluate(right, every=10)
"""
LOOP = """
for batch in job.batches(dataset, steps=steps):
    if job.steps:
        print("mean", job.steps, job.loss)
    loss = torch.nn.functional.cross_entropy(job.model(batch.x), batch.y)
    job.backward(loss)
    print(job.steps, loss.item(), len(batch), flush=True)
    if "slow" in variants:
        time.sleep(0.005)
"""
END = """
digest = hashlib.sha256()
for values in model.state_dict().values():
    digest.update(buffer_of(values.contiguous()))
print("done", job.steps, digest.hexdigest(), scheduler.last_epoch, flush=True)
"""
TRAIN = BEGIN + LOOP + END
