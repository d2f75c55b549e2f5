#!/usr/bin/env bash
# Measures one figure: bench/figure.sh B1|B2|B3|B4|B5|B6|B7|B8|B9|B10|B11|B12|B13|B14|B15|B16|B17|B18|B21|accuracy|backlog|partial-fc|mpi-operator [options of that figure]
# Builds (Release) and starts the programs that it needs. Prints readable lines and, as the last line, one JSON object:
# {"figure", "value", "unit", "reference", "goal", "holds", …}. Stops all that it starts. The object is added to results.jsonl,
# with the options, and the pages are rendered from it. With RINGMASTER_RESULTS=FILE it is added to FILE and no page changes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
here=$root/bench
cluster=bench-$$

usage() { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
die() { echo "figure ${figure:-}: $*" >&2; exit 1; }

# Starts a control plane with a scheduler and 16 simulated nodes, on which 3,200 Pods fit.
simulated_cluster() {
  trap '"$root/deploy/local/cluster.sh" --name "$cluster" down >&2' EXIT
  "$root/deploy/local/cluster.sh" --name "$cluster" up 0 >&2
  "$root/deploy/local/cluster.sh" --name "$cluster" fake 16 >&2
  KUBECONFIG=$("$root/deploy/local/cluster.sh" --name "$cluster" env | sed -n 's/^export KUBECONFIG=//p')
}

measure() { # OPTION...: measures the figure with these options
  case $figure in
    B1 | B2)
      operator_programs ringmaster-operator "figure-${figure,,}"
      simulated_cluster
      "$operator_build/bench/figure-${figure,,}" --kubeconfig="$KUBECONFIG" --operator="$operator_build/operator/app/ringmaster-operator" "$@" ;;
    B3 | B4 | backlog)
      "$root/deploy/local/build.sh" >&2
      operator_programs ringmaster-operator "figure-${figure,,}"
      "$operator_build/bench/figure-${figure,,}" --operator="$operator_build/operator/app/ringmaster-operator" "$@" ;;
    B5) "$here/first_step.sh" "$@" ;;
    B6 | B7 | B8 | B9 | B10) "$here/recovery.sh" "$figure" "$@" ;;
    B11)
      worker_programs figure-b11
      # The layout of a process's memory affects the time by more than the measured difference, so take the median of several runs.
      for run in 1 2 3 4 5 6 7; do
        echo "run $run of 7" >&2
        "$worker_build/tests/overhead/figure-b11" "$@" | tail -n 1 # --ranks=2 --global-batch=64 --steps=50 --rounds=24
      done | jq -sc 'sort_by(.value) | .[length / 2 | floor] + {runs: map(.value)}' ;;
    B12)
      trainer_programs ringmaster-bench
      "$trainer_bench" communicator --json=- "$@" ;; # --ranks=2 -b 1M -e 32M -f 2 --buckets=4 --rounds=30
    B13) "$here/throughput.sh" "$@" ;;
    partial-fc)
      worker_programs figure-partial-fc
      "$worker_build/tests/partial_fc/figure-partial-fc" "$@" ;; # --help
    mpi-operator) "$here/peers/mpi_operator.sh" "$@" ;;
    B14) "$here/sizes.sh" "$@" ;;
    B15)
      worker_programs figure-b15 ringmaster-launcher
      "$worker_build/tests/large_world/figure-b15" --launcher="$worker_build/worker/launcher/app/ringmaster-launcher" "$@" ;; # --ranks=100,1000,10000 --losses=5 --strangers=2000
    B16) "$here/ci_time.sh" "$@" ;;
    B17) "$here/in_place/figure.sh" "$@" ;;
    B18)
      "$root/deploy/local/prerequisites.sh" build images >&2
      (cd "$root" && cmake --preset tools >/dev/null && cmake --build --preset tools) >&2
      "$here/any_image/matrix.sh" "$root/build/tools/worker/tools/ringmaster-tools" "$@" ;; # bullseye trixie-sshd scratch …
    B21)
      worker_programs figure-b21
      pytorch=$("$root/deploy/local/pytorch.sh")
      "$worker_build/tests/any_program/figure-b21" --pytorch="$pytorch" --count="${COUNT:-100}" "$@" ;; # --seed=1 --faults=kill-rank,… --reference=25 --ranks=2
    accuracy) "$here/accuracy/accuracy.sh" "$@" ;;
    *) die "unknown figure; bench/README.md lists all figures" ;;
  esac
}

[ $# -ge 1 ] || usage
figure=$1
shift
options=("$@")
for variable in RUNS STEPS COUNT ROUNDS NETWORKS PODS; do [ -z "${!variable:-}" ] || options+=("$variable=${!variable}"); done
LOAD_BEFORE=$(cut -d' ' -f1 /proc/loadavg)
export LOAD_BEFORE
said=$(mktemp)
trap 'rm -f "$said"' EXIT
set +e
(set -e; measure "$@") | tee "$said"
code=${PIPESTATUS[0]}
set -e
last=$(tail -n 1 "$said")
[[ $last == '{'*'"figure"'*'}' ]] || { [ "$code" -eq 0 ] || exit "$code"; die "the last line is not a figure: $last"; }
"$here/results.py" record "${options[@]}" <<<"$last"
[ -n "${RINGMASTER_RESULTS:-}" ] || "$here/results.py" render
exit "$code"
