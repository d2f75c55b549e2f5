"""A data-parallel training script that uses JAX on CPUs, with one process per slot. Continues from its last
checkpoint."""

import argparse
import io
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True, help="a file that all processes see")
parser.add_argument("--every", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--until", required=True, help="a file: the program does not end before somebody makes it")
options = parser.parse_args()

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
mesh = jax.make_mesh((jax.device_count(),), ("data",))
rows = NamedSharding(mesh, PartitionSpec("data"))
copies = NamedSharding(mesh, PartitionSpec())


@jax.jit
def train(weights, x, y):
    return weights - 0.1 * jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(weights)


weights, step = np.zeros(8, np.float32), 0
if os.path.exists(options.checkpoint):
    state = np.load(options.checkpoint)
    weights, step = state["weights"], int(state["step"])
if jax.process_index() == 0:
    print(f"{jax.process_count()} ranks begin after step {step}", flush=True)
weights = jax.device_put(weights, copies)
truth = np.arange(8, dtype=np.float32)
while step < options.steps:
    mine = np.random.default_rng([step, jax.process_index()]).standard_normal((4, 8), np.float32)
    x = jax.make_array_from_process_local_data(rows, mine)
    y = jax.make_array_from_process_local_data(rows, mine @ truth)
    weights = train(weights, x, y)
    step += 1
    if step % options.every == 0:
        values = np.asarray(weights)  # waits for all processes
        if jax.process_index() == 0:
            buffer = io.BytesIO()
            np.savez(buffer, weights=values, step=step)
            with open(options.checkpoint + ".new", "wb") as file:
                file.write(buffer.getvalue())
            os.replace(options.checkpoint + ".new", options.checkpoint)
while not os.path.exists(options.until):
    time.sleep(0.05)
if jax.process_index() == 0:
    print(f"done after step {step}", flush=True)
