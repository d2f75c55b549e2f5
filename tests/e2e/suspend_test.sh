#!/usr/bin/env bash
# Tests that a suspended job keeps its progress: it takes an unscheduled checkpoint before its Pods are deleted, and continues from
# this checkpoint.
. "$(dirname "$0")/lib.sh"
new_namespace suspend
shared_volume states

# The first scheduled checkpoint is after more steps than the job can complete during this test.
CPU=200m job kept 2 "$(generated 1000000)" "  checkpoint: {everySteps: 1000000, volume: {persistentVolumeClaim: {claimName: states}}}" |
  as_user apply -f -
wait_for "the first steps" 60 at_step kept 10
seen=$(status_field kept progress.step)
assert_equal "checkpoints before the suspension" "" "$(status_field kept checkpoint.step)"

suspend kept true
wait_condition kept Suspended True
no_pods() { [ -z "$(as_user get pods -o name)" ]; }
wait_for "all Pods to go" 30 no_pods
step=$(status_field kept checkpoint.step)
[ "${step:-0}" -ge "$seen" ] || fail "expected a checkpoint of step $seen or later, got step '$step'"
assert_contains "the condition" "checkpoint of step $step" "$(condition kept Suspended message)"

assert_equal "the step at which it was suspended" "$step" "$(status_field kept progress.step)"
suspend kept false
went_on() { as_user logs "$(launcher_pod kept)" | grep -F "\"resumed\":{\"step\":$step,\"from\":\"checkpoint\"" >/dev/null; }
wait_for "training to go on from the checkpoint of step $step" 60 went_on
wait_for "steps after the suspension" 60 at_step kept $((step + 1))
assert_equal "the condition" False "$(condition kept Suspended status)"

# A suspension that loses progress is accepted, with a warning.
said=$(IMAGE=localhost/no-such-image job unwise 1 "$(generated 10)" "  suspend: true" | as_user apply -f - 2>&1)
assert_contains "the warning" 'Warning: .*spec.image' "$said"
wait_condition unwise Suspended True
