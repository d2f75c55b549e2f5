#!/usr/bin/env bash
# Figure accuracy: what ringmaster-train and a plain PyTorch loop learn from the same data. Options go to ringmaster-train alone:
# --momentum=0.8 shows whether the figure would notice.
#   RUNS=5   seeds of each side
#   STEPS=   of every training on both sides, instead of their own
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
worker_programs ringmaster-train figure-training-data
PYTHONPATH=$("$root/deploy/local/pytorch.sh"):$root/bench/peers/torchrun
export PYTHONPATH
exec python3 -B "$root/bench/accuracy/compare.py" "$worker_build/worker/trainer/ringmaster-train" \
  "$worker_build/tests/accuracy/figure-training-data" "$@"
