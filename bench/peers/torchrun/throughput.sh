#!/usr/bin/env bash
# The reference of B13: samples per second of PyTorch DDP. It has the options of throughput.py:
# throughput.sh --network=mnist|resnet18|iresnet18|iresnet50 [--choose] …
# Prints one JSON line; progress goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$("$here/../../../deploy/local/pytorch.sh")
export PYTHONPATH
exec python3 -B "$here/throughput.py" "$@"
