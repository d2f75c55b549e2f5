#!/usr/bin/env bash
# Tests that small runs of the training benchmarks complete and print the expected lines: training_test.sh PROGRAM
set -euo pipefail
program=$1
table=$("$program" compression --generated-samples=256 --epochs=1 --ranks=2,3 --json=- | tee /dev/stderr | tail -n 1)
jq -e '.table.rows | length == 7' <<<"$table" >/dev/null
jq -e '[.table.rows[] | select(.accuracy < 0 or .seconds <= 0 or .accuracy_standard_error <= 0)] == []' <<<"$table" >/dev/null
jq -e '[.table.rows[] | [.compression, .ranks]] == [["none",1],["none",2],["none",3],["fp8-e4m3",2],["fp8-e4m3",3],["fp16",2],["fp16",3]]' \
  <<<"$table" >/dev/null

# A command replaces PyTorch's training: the benchmark runs it once to find the best setting, and then uses that setting.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/peer" <<'P'
#!/bin/sh
echo "$*" >>"$0.asked"
case "$*" in
  *--choose*) echo '{"setting": "tuned", "tried": {"plain": 1, "tuned": 2}}' ;;
  *--setting=tuned*) echo '{"samples_per_second": 2}' ;;
  *) exit 1 ;;
esac
P
chmod +x "$work/peer"
throughput() {
  : >"$work/peer.asked"
  "$program" throughput --json=- --peer="$work/peer" "$@" | tee /dev/stderr | tail -n 1
}
rates=$(throughput --generated-samples=256 --steps=4 --rounds=2 --global-batch=16)
jq -e '.network == "mnist" and .peer_samples_per_second == 2 and .over_peer == .samples_per_second / 2 and .gloo_over_peer == .gloo_samples_per_second / 2
  and .peer_setting == "tuned" and .peer_tried.plain == 1 and .independent_samples_per_second > 0 and .threads == 1' <<<"$rates" >/dev/null
[ "$(grep -c -- --choose "$work/peer.asked")" = 1 ]
[ "$(grep -c -- '--network=mnist --ranks=2 --threads=1 --global-batch=16 --steps=4 --setting=tuned' "$work/peer.asked")" = 2 ]
for network in resnet18 iresnet18; do
  rates=$(throughput --network=$network --generated-samples=64 --steps=1 --rounds=1 --global-batch=4)
  jq -e --arg network $network '.network == $network and .samples_per_second > 0 and .gloo_samples_per_second > 0' <<<"$rates" >/dev/null
done

figure=$("$program" communicator -b 64K -e 128K --rounds=2 --json=- | tee /dev/stderr | tail -n 1)
jq -e '.figure == "B12" and (.sizes | length == 2) and .value == ([.sizes[].ratio] | min)' <<<"$figure" >/dev/null
