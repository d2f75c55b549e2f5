#!/usr/bin/env bash
# The reference of B13: samples a second of PyTorch DDP. throughput.sh --network=mnist|resnet18|iresnet18|iresnet50 [--choose] …, as throughput.py
# Prints one JSON line; what happens meanwhile goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$("$here/../../../deploy/local/pytorch.sh")
export PYTHONPATH
exec python3 -B "$here/throughput.py" "$@"
