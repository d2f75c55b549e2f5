#!/usr/bin/env bash
# Tests a trainer that is built with CUDA, on any machine: gpu_build_test.sh <ringmaster-train>
#
# The trainer must be linked with LibTorch's CUDA part, print its build settings and the effects of flags, train in fp16 and with two
# ranks over Gloo on the CPU, and refuse a GPU job on a machine without a GPU, with the reason and exit code 2.
set -euo pipefail
train=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "gpu_build_test.sh: $1" >&2
  exit 1
}

libraries=$(ldd "$train")  # read all of it: in a pipe, grep -q would end early and ldd would fail
grep -q 'libtorch_cuda\.so => /' <<<"$libraries" || fail "the program is not linked with libtorch_cuda"
grep 'not found' <<<"$libraries" && fail "libraries are missing"

report=$("$train" --check-build)
echo "$report"
for line in 'LibTorch 2' 'CUDA 1' 'sm_90' 'NCCL 2'; do
  grep -q "\[X\].*$line" <<<"$report" || fail "--check-build does not list $line"
done

plan=$("$train" --dry-run --device=cpu --generated-samples=256 --global-batch=96 --step-log="$folder/none")
echo "$plan"
grep -q 'per rank  *96 samples' <<<"$plan" || fail "--dry-run does not print the samples per rank"
[ ! -e "$folder/none" ] || fail "--dry-run wrote a log"

# LibTorch can compute in fp16 on a CPU from 2.3 on. The first loss scales are too large: steps are skipped until one fits.
"$train" --device=cpu --precision=fp16 --generated-samples=256 --steps=12 --seed=1 >"$folder/half" 2>&1 ||
  { cat "$folder/half"; fail "a training in fp16 failed"; }
scales=$(grep -o 'loss_scale=[0-9]*' "$folder/half" | wc -l)
grep -q "\"skipped_steps\":$scales," "$folder/half" || { cat "$folder/half"; fail "skipped_steps differs from the number of lowered loss scales"; }
if [ "$scales" -lt 1 ] || [ "$scales" -ge 12 ]; then fail "expected 1 to 11 skipped steps of 12 in fp16, got $scales"; fi

if grep -q '\[X\] Gloo' <<<"$report"; then
  mkdir "$folder/store"
  pids=()
  for rank in 0 1; do
    OMP_NUM_THREADS=1 timeout 200 "$train" --device=cpu --world-size=2 --rank=$rank --store="$folder/store" --transport=gloo \
      --generated-samples=256 --steps=6 >"$folder/rank-$rank" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || { cat "$folder"/rank-*; fail "a rank of a training over Gloo failed"; }
  done
  grep -q '"summary"' "$folder/rank-0" || fail "the training over Gloo wrote no summary"
fi

if grep -q '\[X\] GPU 0' <<<"$report"; then
  echo "skipped the refusal test, because a GPU is present"
  exit 0
fi
for flags in "--device=cuda" "--device=auto"; do
  code=0
  # shellcheck disable=SC2086
  RINGMASTER_GPUS=1 "$train" $flags --steps=1 >"$folder/refusal" 2>&1 || code=$?
  cat "$folder/refusal"
  [ "$code" = 2 ] || fail "expected exit code 2 for a GPU job without a GPU, got $code"
  grep -Eq 'no NVIDIA driver|no GPU is visible|driver is too old' "$folder/refusal" || fail "the error does not state why no GPU can be used"
done
