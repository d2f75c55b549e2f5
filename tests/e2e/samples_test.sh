#!/usr/bin/env bash
# Tests that every sample of deploy/samples does what its first lines say, with this tree's image (digits.yaml: digits_test.sh).
# Samples that compute for minutes are shortened (`shorter`), which changes only how long they train.
# gpu.yaml, bench-gpu.yaml and rdma.yaml request devices that the nodes only advertise: their Pods are scheduled, and the jobs report
# that there are no GPUs.
#   samples_test.sh gpu      these three: they need another release of the chart, which disturbs other tests
#   samples_test.sh cpu      all others
#   samples_test.sh          all
# shellcheck disable=SC2317  # functions are called by name: wait_for, before_*, sample_*
. "$(dirname "$0")/lib.sh"
of=${1:-all}
new_namespace "samples-$of"
samples=$repository/deploy/samples

declare -A shorter=(
  [bench-compression]=s/--epochs=5/--epochs=1/ [bench-throughput]="s/--rounds=3/--rounds=1, --steps=40/" [checkpoints]=s/--epochs=50/--epochs=15/ [partial-fc]=s/--steps=200/--steps=20/
)
apply_sample() { # file: sets `job`
  local text
  text=$(cat "$samples/$1")
  if [ -n "${shorter[${1%.yaml}]:-}" ]; then
    [ "$(sed "${shorter[${1%.yaml}]}" <<<"$text")" != "$text" ] || fail "the substitution ${shorter[${1%.yaml}]} does not match $1"
    text=$(sed "${shorter[${1%.yaml}]}" <<<"$text")
  fi
  as_user apply -f - >/dev/null <<<"$text"
  job=$(sed -n '/^kind: TrainingJob/,$ s/^  name: //p' "$samples/$1")
}
succeeds() { wait_condition "$job" Succeeded True "$1"; } # seconds
printed() { # jq-expression: checks that the expression is true for the last line of JSON in the log
  local figure
  figure=$(as_user logs "$(launcher_pod "$job")" | grep -oE '\{"[a-z]+":.*\}$' | tail -n 1)
  jq -e "$1" <<<"$figure" >/dev/null || fail "$job: $1 is false for: $figure"
}
accurate() { # at least
  awk -v a="$(status_field "$job" progress.accuracy)" -v least="$1" 'BEGIN {exit !(a >= least)}' ||
    fail "$job: held-out accuracy $(status_field "$job" progress.accuracy) is below $1"
}

sample_bench_allreduce() {
  succeeds 120
  printed '[.rows[] | .out_of_place.wrong, .in_place.wrong] | length >= 20 and all(. == 0)'
}
sample_bench_compression() {
  succeeds 240
  printed '[.table.rows[].compression] | unique | length >= 3'
}
sample_bench_throughput() {
  succeeds 240
  printed '.samples_per_second > 0 and .of_independent > 0'
}
before_checkpoints() { volume_for mnist-kept; }
sample_checkpoints() { # the job loses all workers after its first checkpoint; a start from the first step would lose at least 100 steps
  kept() { [ -n "$(status_field "$job" checkpoint.step)" ]; }
  wait_for "a checkpoint" 120 kept
  as_user delete pod -l "ringmaster.dev/job-name=$job,ringmaster.dev/role=worker" --force --grace-period=0 >/dev/null 2>&1
  succeeds 300
  assert_equal "its last step" 480 "$(status_field "$job" progress.step)"
  [ "$(status_field "$job" lastRecovery.stepsLost)" -lt 100 ] || fail "it did not resume from its checkpoint: $(status_field "$job" lastRecovery)"
}
before_data_cache() {
  digits_config_map "$user" "$namespace"
  shared_volume datasets
  mkdir "$volume/mnist"
  cp "$RINGMASTER_CACHE"/digits/idx/*ubyte "$volume/mnist"
}
sample_data_cache() {
  succeeds 120
  [ -n "$(status_field "$job" progress.accuracy)" ] || fail "the job was not trained on the digits of the claim"
}
sample_mnist_generated() {
  succeeds 120
  accurate 0.9
}
sample_partial_fc() {
  succeeds 240
  assert_equal "its last step" 20 "$(status_field "$job" progress.step)"
}
# Makes nodes advertise resources.
advertise() { # JSON
  local node
  for node in node1 node2 node3; do
    kubectl patch node "$node" --subresource=status --type=merge --patch "{\"status\": {\"capacity\": $1, \"allocatable\": $1}}" >/dev/null
  done
}
has_failed_preflight() { [ "$(condition "$job" Failed reason)" = PreflightFailed ]; }
# Installs the profiles that the samples' comments require, once for all three.
before_gpu() {
  [ -z "${gpus_allowed:-}" ] || return 0
  gpus_allowed=yes
  install_chart --set "presets.gpu={$namespace}" --set "presets.gpu-host-network={$namespace}"
  advertise '{"nvidia.com/gpu": "8", "rdma/hca": "1"}'
}
workers_get_gpus() { # workers GPUs-of-each
  worker_tolerates() {
    as_user get pods -l "ringmaster.dev/job-name=$job,ringmaster.dev/role=worker" -o json | jq -e --argjson workers "$1" --arg gpus "$2" '[.items[] |
      select(.spec.nodeName and .spec.containers[0].resources.limits["nvidia.com/gpu"] == $gpus
        and (.spec.tolerations | any(.key == "nvidia.com/gpu")) and (.spec.containers[0].env | any(.name == "NCCL_DEBUG")))] | length >= $workers'
  }
  wait_for "$1 workers of $job with GPUs and what the profile sets" 60 worker_tolerates "$@"
  wait_for "$job to fail because its workers have no GPUs" 120 has_failed_preflight
}
sample_gpu() { workers_get_gpus 1 1; }
before_bench_gpu() { before_gpu; }
sample_bench_gpu() { workers_get_gpus 2 8; }
before_rdma() {
  before_gpu
  kubectl label --overwrite namespace "$namespace" pod-security.kubernetes.io/enforce=privileged >/dev/null
}
sample_rdma() {
  local pod
  worker_asks() {
    pod=$(as_user get pods -l "ringmaster.dev/job-name=$job,ringmaster.dev/role=worker" -o json)
    jq -e '[.items[] | select(.spec.nodeName and .spec.hostNetwork and .spec.containers[0].resources.limits["nvidia.com/gpu"] == "8"
      and .spec.containers[0].resources.limits["rdma/hca"] == "1"
      and (.spec.containers[0].securityContext.capabilities.add // [] | index("IPC_LOCK")))] | length >= 2' <<<"$pod"
  }
  wait_for "two workers of $job with GPUs, RDMA devices and IPC_LOCK on the nodes' network" 60 worker_asks
  wait_for "$job to fail because its workers have no GPUs" 120 has_failed_preflight
}
clean_up() {
  [ -n "${gpus_allowed:-}" ] || return 0
  install_chart --reset-values
  advertise '{"nvidia.com/gpu": null, "rdma/hca": null}'
}

grep -F 'deploy/samples/digits.yaml' "$repository/tests/e2e/digits_test.sh" >/dev/null || fail "no test runs digits.yaml"
for sample in "$samples"/*.yaml; do
  sample=$(basename "$sample" .yaml)
  [ "$sample" != digits ] || continue
  case $sample in gpu | bench-gpu | rdma) kind=gpu ;; *) kind=cpu ;; esac
  [ "$of" = all ] || [ "$of" = "$kind" ] || continue
  declare -F "sample_${sample//-/_}" >/dev/null || fail "no test runs $sample.yaml"
  begun=$SECONDS
  ! declare -F "before_${sample//-/_}" >/dev/null || "before_${sample//-/_}"
  apply_sample "$sample.yaml"
  "sample_${sample//-/_}"
  as_user delete trainingjob "$job" --cascade=foreground >/dev/null
  echo "$sample.yaml: $((SECONDS - begun)) s"
done
