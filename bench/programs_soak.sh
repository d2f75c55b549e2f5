#!/usr/bin/env bash
# Tests images and programs without Ringmaster: the whole matrix of figure B18, then faults of figure B21 against a torchrun job,
# without the reference: bench/programs_soak.sh [FAULTS] [SEED]
# A job of the matrix may take one minute and a recovery two minutes. A figure that misses its goal fails the soak; no result is recorded.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
faults=${1:-100} seed=${2:-1}
RINGMASTER_RESULTS=$(mktemp)
trap 'rm -f "$RINGMASTER_RESULTS"' EXIT
export RINGMASTER_RESULTS

figure() { # NAME OPTION...: measures the figure and sets $result
  "$here/figure.sh" "$@"
  result=$(tail -n 1 "$RINGMASTER_RESULTS" | jq -c .result)
  [ "$(jq .holds <<<"$result")" = true ] || { echo "$1 does not hold: repeat it with bench/figure.sh $*" && exit 1; }
}

figure B18
matrix=$(jq -r '"\(.value) of \(.reference) cells of roots × programs ended as they should"' <<<"$result")
COUNT=$faults figure B21 --seed="$seed" --reference=0
echo "$matrix"
jq -r '"a torchrun job resumed training by itself after \(.recovered) of \(.faults) faults: median \(.median_s * 10 | round / 10) s, worst \(.worst_s * 10 | round / 10) s"' <<<"$result"
