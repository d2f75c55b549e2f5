#!/usr/bin/env bash
# The benches that train run to their end, small, and say what they are to say: training_test.sh PROGRAM
set -euo pipefail
program=$1
table=$("$program" compression --generated-samples=256 --epochs=1 --ranks=2,3 --json=- | tee /dev/stderr | tail -n 1)
jq -e '.table.rows | length == 7' <<<"$table" >/dev/null
jq -e '[.table.rows[] | select(.accuracy < 0 or .seconds <= 0 or .accuracy_standard_error <= 0)] == []' <<<"$table" >/dev/null
jq -e '[.table.rows[] | [.compression, .ranks]] == [["none",1],["none",2],["none",3],["fp8-e4m3",2],["fp8-e4m3",3],["fp16",2],["fp16",3]]' \
  <<<"$table" >/dev/null

# A command that stands for PyTorch's training.
rates=$("$program" throughput --generated-samples=256 --steps=4 --rounds=2 --global-batch=16 --json=- \
  --ddp='echo {\"samples_per_second\": 1}; true' | tee /dev/stderr | tail -n 1)
jq -e '.figure == "B13" and .reference == 1 and .value == .samples_per_second' <<<"$rates" >/dev/null

figure=$("$program" communicator -b 64K -e 128K --rounds=2 --json=- | tee /dev/stderr | tail -n 1)
jq -e '.figure == "B12" and (.sizes | length == 2) and .value == ([.sizes[].ratio] | min)' <<<"$figure" >/dev/null
