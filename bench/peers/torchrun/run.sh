#!/usr/bin/env bash
# The reference of B10: the share of its throughput that PyTorch DDP under torchrun keeps while its ranks are killed.
#   run.sh [--replicas=8] [--every=29] [--count=8] [--checkpoint-every=50] [--seed=1] [--limit=300]
# Prints one JSON line; progress goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$("$here/../../../deploy/local/pytorch.sh")
export PYTHONPATH
exec python3 -B "$here/throughput_kept.py" "$@"
