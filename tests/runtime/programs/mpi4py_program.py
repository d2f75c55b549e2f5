"""A data-parallel training script that uses mpi4py, with one process per slot. Continues from its last checkpoint."""

import argparse
import os
import pickle
import time
from array import array

from mpi4py import MPI

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True, help="a file that all ranks see")
parser.add_argument("--every", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--until", required=True, help="a file: the program does not end before somebody makes it")
options = parser.parse_args()

world = MPI.COMM_WORLD
weight, step = 0.0, 0
if os.path.exists(options.checkpoint):
    with open(options.checkpoint, "rb") as file:
        weight, step = pickle.load(file)
if world.rank == 0:
    print(f"{world.size} ranks begin after step {step}", flush=True)
while step < options.steps:
    total = array("d", [0.0])
    request = world.Iallreduce(array("d", [weight - world.rank]), total)
    while not request.Test():
        time.sleep(0.001)  # a rank that waits in MPI takes a whole processor
    weight -= 0.1 * total[0] / world.size
    step += 1
    if step % options.every == 0 and world.rank == 0:
        with open(options.checkpoint + ".new", "wb") as file:
            pickle.dump((weight, step), file)
        os.replace(options.checkpoint + ".new", options.checkpoint)
while not os.path.exists(options.until):
    time.sleep(0.05)
if world.rank == 0:
    print(f"done after step {step}", flush=True)
