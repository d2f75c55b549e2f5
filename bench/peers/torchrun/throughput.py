"""Measures the samples per second of PyTorch DistributedDataParallel: the reference of figure B13.

Starts torchrun, trains a few steps to warm up and then --steps steps, and prints one JSON object. With --choose it tries every
setting and prints {"setting": the fastest, "tried": {setting: samples a second}}.
"""

import argparse
import inspect
import json
import os
import pathlib
import subprocess
import sys
import time

# plain: as in PyTorch's tutorials. tuned: settings that cost a user nothing. compiled: torch.compile, which runs during the warm-up.
SETTINGS = {
    "plain": set(),
    "tuned": {"tuned"},
    "channels-last": {"tuned", "channels_last"},
    "compiled": {"tuned", "compile"},
    "compiled-channels-last": {"tuned", "compile", "channels_last"},
}
WARM_UP = 5
LIMIT = 300  # seconds for a setting, including compilation


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", choices=["mnist", "resnet18", "iresnet18", "iresnet50"], default="mnist")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="compute threads per rank")
    parser.add_argument("--cuda", action="store_true", help="use one GPU per rank, bf16 autocast and NCCL")
    parser.add_argument("--global-batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--setting", choices=SETTINGS, default="plain")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="settings that --choose tries")
    return parser.parse_args()


def start_ranks(options, setting):
    """Runs torchrun and returns the JSON object in its last line."""
    command = [
        sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}",
        os.path.abspath(__file__), f"--network={options.network}", f"--ranks={options.ranks}", f"--threads={options.threads}",
        f"--global-batch={options.global_batch}", f"--steps={options.steps}", f"--setting={setting}",
        *(["--cuda"] if options.cuda else []),
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "GLOO_SOCKET_IFNAME": "lo"}
    if not options.cuda:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if include := python_headers():
        environment["CPLUS_INCLUDE_PATH"] = include
    try:
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:  # the ranks end with torchrun
        raise SystemExit(f"it took more than {LIMIT} s") from None
    if ran.returncode != 0:
        raise SystemExit(ran.returncode)
    return json.loads(ran.stdout.splitlines()[-1])


def python_headers():
    """Returns the folder of Python.h, which programs of torch.compile include; empty if it is not there."""
    import sysconfig

    folder = pathlib.Path(sysconfig.get_paths()["include"])
    return str(folder) if (folder / "Python.h").exists() else ""


def choose(options):
    tried = {}
    for setting in options.settings.split(","):
        try:
            tried[setting] = start_ranks(options, setting)["samples_per_second"]
        except SystemExit as ended:
            if setting == "plain":
                raise
            print(f"PyTorch's setting {setting} did not train ({ended}); it is skipped", file=sys.stderr)
            tried[setting] = None
    best = max((setting for setting in tried if tried[setting]), key=tried.get)
    print(json.dumps({"setting": best, "tried": tried}), flush=True)


def finish(device):
    """Waits for pending GPU work."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def train(options):
    import train as example  # noqa: F401  sets the process up to end with its parent, before it imports torch
    import torch
    import torch.distributed as dist
    from networks import NETWORKS, data, pixels
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(options.threads)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if options.cuda else torch.device("cpu")
    if options.cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if options.cuda else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    network, chosen = NETWORKS[options.network], SETTINGS[options.setting]
    samples = max(network.samples, options.global_batch)
    images, labels = data(network, samples)
    labels = labels.to(device)
    model, layout = network.make().to(device), torch.contiguous_format
    torch.backends.cudnn.benchmark = options.cuda and "tuned" in chosen
    if "channels_last" in chosen:
        layout = torch.channels_last
        model = model.to(memory_format=layout)
    if "compile" in chosen:
        model = torch.compile(model)
    if "tuned" in chosen:
        # Each rank keeps its own running statistics; the name of the parameter depends on the version of PyTorch.
        known = inspect.signature(DistributedDataParallel).parameters
        alone = {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}
        model = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True, **alone)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, fused="tuned" in chosen)
    share = slice(rank * options.global_batch // size, (rank + 1) * options.global_batch // size)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(1))
    if options.cuda:  # batches are pinned, as by a DataLoader with pin_memory
        images = images.contiguous(memory_format=layout).pin_memory()
    for step in range(WARM_UP + options.steps):
        if step == WARM_UP:
            finish(device)
            dist.barrier()
            begin = time.monotonic()
        first = step * options.global_batch % (samples - options.global_batch + 1)
        batch = slice(first + share.start, first + share.stop) if options.cuda else order[first : first + options.global_batch][share]
        inputs = pixels(images[batch].to(device, non_blocking=True)).contiguous(memory_format=layout)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=options.cuda):
            loss = network.loss(model(inputs), labels[batch])
        loss.backward()
        optimizer.step()
    finish(device)
    seconds = time.monotonic() - begin
    if rank == 0:
        print(json.dumps({"samples_per_second": options.steps * options.global_batch / seconds}), flush=True)
    dist.destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # a normal exit sometimes aborts: "terminate called without an active exception"


def main():
    options = parse()
    if "LOCAL_RANK" in os.environ:
        train(options)
    elif options.choose:
        choose(options)
    else:
        print(json.dumps(start_ranks(options, options.setting)), flush=True)


if __name__ == "__main__":
    main()
