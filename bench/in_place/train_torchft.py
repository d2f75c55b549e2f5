"""Trains as train.py does, but with torchft: as one replica group of one rank, with a checkpoint after a fixed number of steps.

Adds a line to --steps for each step: the number of the quorum, the step, the number of replicas in the quorum (0: the step
failed and its batch is dropped), and the time at which the step was completed, in seconds of the monotonic clock.
"""

import argparse
import datetime
import os
import time

import network
import torch
import torch.distributed as dist
import torchft
from torch import nn


def average(manager, model):
    """Reduces all gradients in one tensor. After an error the manager does not commit the step, so the values are not used."""
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    manager.allreduce(flat).wait()
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replica", type=int, required=True)
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--address", default="127.0.0.1", help="of this host")
    parser.add_argument("--lighthouse", required=True, help="its URL")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for collectives, quorum and connections")
    parser.add_argument("--by-hand", action="store_true", help="reduce after backward: torchft's DDP ends the process on an error")
    parser.add_argument("--checkpoint", required=True, help="a file that all replicas see")
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next")
    parser.add_argument("--steps", required=True, help="a file that all replicas see")
    options = parser.parse_args()

    torch.set_num_threads(1)
    store = dist.TCPStore(options.address, 0, is_master=True, wait_for_workers=False)
    inner = network.network()
    inner_optimizer = network.optimizer_of(inner)
    limit = datetime.timedelta(seconds=options.timeout)

    def state():
        return {"model": inner.state_dict(), "optimizer": inner_optimizer.state_dict()}

    def load(saved):
        inner.load_state_dict(saved["model"])
        inner_optimizer.load_state_dict(saved["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=limit), load_state_dict=load, state_dict=state, min_replica_size=1,
        timeout=limit, quorum_timeout=limit, connect_timeout=limit, rank=0, world_size=1, store_addr=options.address,
        store_port=store.port, lighthouse_addr=options.lighthouse, replica_id=f"replica_{options.replica}",
        hostname=options.address,
    )  # fmt: skip
    if os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint)
        load(saved)
        manager.load_state_dict(saved["torchft"])
    model = inner if options.by_hand else torchft.DistributedDataParallel(manager, inner)
    optimizer = torchft.Optimizer(manager, inner_optimizer)
    sampler = torchft.DistributedSampler(
        network.dataset(), replica_rank=options.replica, num_replica_groups=options.replicas, group_rank=0,
        num_replicas=1, shuffle=True,
    )  # fmt: skip
    batches = torch.utils.data.DataLoader(
        network.dataset(), batch_size=network.GLOBAL_BATCH // options.replicas, sampler=sampler, drop_last=True
    )

    with open(options.steps, "a", buffering=1) as log:
        while True:
            for x, y in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                if options.by_hand:
                    average(manager, inner)
                before = manager.current_step()
                optimizer.step()
                step = manager.current_step()
                committed = step > before
                ranks = manager.num_participants() if committed else 0
                log.write(f"{manager._quorum_id} {step} {ranks} {time.monotonic():.4f}\n")
                if committed and step % options.every == 0 and manager.participating_rank() == 0:
                    network.save(options.checkpoint, {**state(), "torchft": manager.state_dict()})


if __name__ == "__main__":
    main()
