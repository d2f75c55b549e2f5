#!/usr/bin/env bash
# Figure accuracy: compares what ringmaster-train and a plain PyTorch loop learn from the same data. Options
# are passed only to ringmaster-train. With --momentum=0.8, the two sides train differently, so the figure
# must fail.
#   RUNS=5   number of seeds of each side
#   STEPS=   number of steps of every training on both sides, instead of the default
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
worker_programs ringmaster-train figure-training-data
PYTHONPATH=$("$root/deploy/local/pytorch.sh"):$root/bench/peers/torchrun
export PYTHONPATH
exec python3 -B "$root/bench/accuracy/compare.py" "$worker_build/worker/trainer/ringmaster-train" \
  "$worker_build/tests/accuracy/figure-training-data" "$@"
