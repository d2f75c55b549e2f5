#!/usr/bin/env bash
# Runs the commands of README.md and of getting started unchanged, except blocks that say why they are not run
# (tests/docs/commands.py). The release is already installed.
. "$(dirname "$0")/lib.sh"
new_namespace pages
cd "$repository"
work=$(mktemp -d)
clean_up() { rm -rf "$work"; }
cp "$KUBECONFIG" "$work/kubeconfig"
export KUBECONFIG=$work/kubeconfig
kubectl config set-context --current --namespace="$namespace" >/dev/null

follow() { # page: sets `said`
  tests/docs/commands.py script "$1" >"$work/script"
  said=$(timeout $((240 * patience)) bash -euo pipefail "$work/script" 2>&1) || fail "$1: $said"
  kubectl delete trainingjobs --all --cascade=foreground >/dev/null
}
follow README.md
assert_contains "README.md describes the job" 'TrainingStarted' "$said"
follow docs/getting-started.md
assert_contains "the launcher's log" '\{"step":' "$said"
assert_contains "what the recovery cost" '"cause":' "$said"
assert_contains "helm's test" 'Phase: +Succeeded' "$said"
