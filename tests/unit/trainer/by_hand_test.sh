#!/usr/bin/env bash
# Ranks that are started by hand, without an agent: by_hand_test.sh <ringmaster-train> <ringmaster-audit>
#
# Two ranks have the same parameters, bit for bit, over Gloo and through shared memory; who loses its peer ends with 75 and names it.
set -euo pipefail
train=$1 audit=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

fail() {
  echo "by_hand_test.sh: $1" >&2
  exit 1
}

digits=(--device=cpu --generated-samples=256 --global-batch=96 --steps=8 --seed=3 --log-every=1)

echo "# two ranks over Gloo and through memory"
for transport in gloo shared-memory; do
  mkdir "$folder/$transport"
  pids=()
  for rank in 0 1; do
    "$train" --world-size=2 --rank=$rank --store="$folder/store-$transport" --transport=$transport "${digits[@]}" \
      --audit-log="$folder/$transport" --step-log="$folder/steps" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "the training over $transport failed"; done
  grep '"summary"' "$folder/steps" >/dev/null || fail "no summary was written over $transport"
done
"$audit" "$folder/gloo" --compare "$folder/shared-memory" || fail "parameters over Gloo and through memory differ"

echo "# a rank that is killed while others share its memory"
pids=()
for rank in 0 1; do
  "$train" --world-size=2 --rank=$rank --store="$folder/store-killed" --transport=shared-memory "${digits[@]}" --steps=100000 \
    --step-log="$folder/killed-$rank" 2>"$folder/survivor-$rank" &
  pids+=($!)
done
until grep -s '"step":3' "$folder/killed-0" >/dev/null; do sleep 0.05; done
kill -9 "${pids[1]}"
code=0
wait "${pids[0]}" || code=$?
[ "$code" = 75 ] || { cat "$folder/survivor-0" && fail "who lost its peer ended with $code, not 75"; }
grep 'rank 1 has left the world' "$folder/survivor-0" >/dev/null || { cat "$folder/survivor-0" && fail "it does not say whom it lost"; }
echo "all passed"
