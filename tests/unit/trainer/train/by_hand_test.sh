#!/usr/bin/env bash
# Tests ranks that are started by hand, without an agent: by_hand_test.sh <ringmaster-train> <ringmaster-audit> <merge_timelines.py>
#
# Two ranks must have the same parameters, bit for bit, over Gloo and through shared memory, and their timelines can be merged. A rank that
# loses its peer exits with 75 and names the peer, even if its volume hangs; a rank that gets SIGTERM exits with 143; both write their
# timelines.
set -euo pipefail
train=$1 audit=$2 merge=$3
folder=$(mktemp -d)
trap 'exec 9>&-; umount -l "$folder/volume" 2>/dev/null || true; rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
patience=${RINGMASTER_PATIENCE:-1}

fail() {
  echo "by_hand_test.sh: $1" >&2
  exit 1
}

digits=(--device=cpu --generated-samples=256 --global-batch=96 --seed=3 --log-every=1)

at_step() { # step, step-log: waits until the step is in the log
  for _ in $(seq $((1200 * patience))); do
    ! grep -s "\"step\":$1[,}]" "$2" >/dev/null || return 0
    sleep 0.05
  done
  fail "step $1 did not complete in time"
}

echo "# two ranks over Gloo and through memory"
for transport in gloo shared-memory; do
  mkdir "$folder/$transport"
  pids=()
  for rank in 0 1; do
    "$train" --world-size=2 --rank=$rank --store="$folder/store-$transport" --transport=$transport "${digits[@]}" \
      --steps=8 --audit-log="$folder/$transport" --step-log="$folder/steps" --timeline="$folder/timeline-$transport" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "the training over $transport failed"; done
  grep '"summary"' "$folder/steps" >/dev/null || fail "no summary was written over $transport"
  python3 "$merge" "$folder/timeline-$transport" >"$folder/trace"
  jq -e 'def of($name): .traceEvents | map(select(.name == $name));
    (of("process_name") | map(.args.name)) == ["rank 0 static/0/1", "rank 1 static/1/1"]
    and ([of("data", "compute", "forward", "allreduce") | map(select(.args.step == 8).pid) | unique == [0, 1]] | all)' \
    "$folder/trace" >/dev/null || { head -c 2000 "$folder/trace"; fail "the merged timeline over $transport is invalid"; }
done
"$audit" "$folder/gloo" --compare "$folder/shared-memory" || fail "parameters over Gloo and through memory differ"

echo "# a rank that is killed while others share its memory"
pids=() timeline=(--timeline="$folder/timeline-killed")
for rank in 0 1; do
  "$train" --world-size=2 --rank=$rank --store="$folder/store-killed" --transport=shared-memory "${digits[@]}" --steps=100000 \
    --step-log="$folder/killed-$rank" "${timeline[@]}" 2>"$folder/survivor-$rank" &
  pids+=($!)
  timeline=()  # ranks may have different settings for the timeline
done
at_step 3 "$folder/killed-0"
kill -9 "${pids[1]}"
code=0
wait "${pids[0]}" || code=$?
[ "$code" = 75 ] || { cat "$folder/survivor-0" && fail "the rank that lost its peer exited with $code, expected 75"; }
grep 'rank 1 has left the world' "$folder/survivor-0" >/dev/null || { cat "$folder/survivor-0" && fail "the survivor's log does not name the lost rank"; }
[ -s "$folder/timeline-killed/static-0-1.json" ] || fail "the rank that lost its peer wrote no timeline"

echo "# a rank that loses its peer while its volume hangs"
mkdir "$folder/volume"
pids=() limit=(timeout -s KILL $((60 * patience)))
for rank in 0 1; do
  "${limit[@]}" "$train" --world-size=2 --rank=$rank --store="$folder/store-hung" "${digits[@]}" --steps=100000 \
    --checkpoint-dir="$folder/volume" --checkpoint-every=1 --step-log="$folder/hung-$rank" &
  pids+=($!)
  limit=()
done
at_step 3 "$folder/hung-0"
{ exec 9<>/dev/fuse; } 2>/dev/null || true
if mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 hung "$folder/volume" 2>/dev/null; then  # no process serves it
  at_step $(($(grep -c '"step"' "$folder/hung-0") + 10)) "$folder/hung-0"
  kill -9 "${pids[1]}"
  code=0
  wait "${pids[0]}" || code=$?
  [ "$code" = 75 ] || fail "the rank whose volume hangs exited with $code, expected 75"
else
  echo "skipped: mounting needs root"
  kill "${pids[@]}"
fi

echo "# a rank that receives SIGTERM"
"$train" "${digits[@]}" --steps=100000 --step-log="$folder/ended" --timeline="$folder/timeline-ended" &
at_step 3 "$folder/ended"
kill $!
code=0
wait $! || code=$?
[ "$code" = 143 ] || fail "the rank that received SIGTERM exited with $code, expected 143"
[ -s "$folder/timeline-ended/static-0-1.json" ] || fail "the rank that received SIGTERM wrote no timeline"
echo "all passed"
