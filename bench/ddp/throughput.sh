#!/usr/bin/env bash
# The reference of B13: samples a second of PyTorch DDP. throughput.sh [--ranks=2] [--global-batch=256] [--steps=150]
# Prints one JSON line; what happens meanwhile goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PYTHONPATH=$("$here/install.sh")
export PYTHONPATH
exec python3 -B "$here/throughput.py" "$@"
