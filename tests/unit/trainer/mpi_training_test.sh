#!/usr/bin/env bash
# Training over MPI: mpi_training_test.sh <ringmaster-train> <ringmaster-audit> <mpirun>
#
# Two ranks that mpirun started have the same parameters, bit for bit, as two over Gloo or shared memory, after every step; shares
# of a table that travel between three ranks arrive; a rank that dies ends the job; what cannot be is refused.
set -euo pipefail
train=$1 audit=$2
mpirun=("$3" --allow-run-as-root --oversubscribe)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

fail() {
  echo "mpi_training_test.sh: $1" >&2
  exit 1
}

refused() { # text command...: ends with 2 and says so
  local text=$1 code=0
  shift
  "$@" >"$folder/refusal" 2>&1 || code=$?
  grep "$text" "$folder/refusal" >/dev/null || { cat "$folder/refusal" && fail "no word of '$text'"; }
  [ "$code" = 2 ] || fail "'$*' ended with $code, not 2"
}

digits=(--device=cpu --generated-samples=256 --global-batch=96 --steps=8 --seed=3 --log-every=1)

echo "# two ranks over MPI, over Gloo and through memory"
mkdir "$folder/mpi"
"${mpirun[@]}" -n 2 "$train" --mpi "${digits[@]}" --audit-log="$folder/mpi" --step-log="$folder/steps" ||
  fail "the training over MPI failed"
for transport in gloo shared-memory; do
  mkdir "$folder/$transport"
  pids=()
  for rank in 0 1; do
    "$train" --world-size=2 --rank=$rank --store="$folder/store-$transport" --transport=$transport "${digits[@]}" \
      --audit-log="$folder/$transport" --step-log=none &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "the training over $transport failed"; done
  "$audit" "$folder/mpi" --compare "$folder/$transport" || fail "MPI's parameters are not those over $transport"
done

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

grep '"summary"' "$folder/steps" >/dev/null || fail "no summary was written"

echo "# 16-bit reductions, and shares of a table"
mkdir "$folder"/{narrow,shares}
"${mpirun[@]}" -n 3 "$train" --mpi "${digits[@]}" --compression=bf16 --audit-log="$folder/narrow" --step-log=none ||
  fail "the training in 16 bits failed"
"$audit" "$folder/narrow" || fail "ranks that reduce in 16 bits disagree"
"${mpirun[@]}" -n 3 "$train" --mpi --workload=partial-fc --backbone=small --data=synthetic --classes=64 --image-side=16 \
  --embedding=16 --sample-rate=0.5 --device=cpu --generated-samples=96 --global-batch=24 --steps=4 \
  --checkpoint-dir="$folder/checkpoints" --audit-log="$folder/shares" --step-log=none || fail "partial-fc failed"
"$audit" "$folder/shares" || fail "ranks with shares disagree"
[ -e "$folder"/checkpoints/*-4/part-2 ] || fail "the last step is no checkpoint with a part of each rank"

echo "# a rank that dies"
# shellcheck disable=SC2016  # the rank's shell expands it
code=0
timeout 120 "${mpirun[@]}" -n 2 bash -c '
  if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    (until grep -s "\"step\":3" "$1" >/dev/null; do sleep 0.05; done; kill -9 $$) &
  fi
  shift; exec "$@"' - "$folder/until" "$train" --mpi "${digits[@]}" --steps=100000 --step-log="$folder/until" \
  >"$folder/killed" 2>&1 || code=$?
[ "$code" != 0 ] && [ "$code" != 124 ] || { cat "$folder/killed" && fail "a job that lost a rank ended with $code"; }

echo "# what cannot be"
refused 'mpirun -n 4 ringmaster-train' env -u OMPI_COMM_WORLD_SIZE "$train" --mpi "${digits[@]}"
refused 'leave out --rank' "$train" --mpi --world-size=2 --store="$folder/nowhere" "${digits[@]}"
refused 'neither come nor go' env RINGMASTER_AGENT_SOCKET=/nowhere "$train" --mpi "${digits[@]}"
echo "all passed"
