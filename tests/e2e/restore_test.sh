#!/usr/bin/env bash
# A job's checkpoints are its own: deleted, corrected and applied again it trains from its first step and says how to go on; with restoreFrom it goes on,
# and where nothing is left to train it says that.
. "$(dirname "$0")/lib.sh"
new_namespace restore
shared_volume states

kept() { # name, steps, learning rate[, more under checkpoint]
  job "$1" 1 "[ringmaster-train, --workload=mnist, --data=generated, --global-batch=48, --steps=$2, --seed=7, --learning-rate=$3]" \
    "  checkpoint: {everySteps: 50, volume: {persistentVolumeClaim: {claimName: states}}${4:+, $4}}" | as_user apply -f - >/dev/null
}
events() { as_user get events.events.k8s.io -o jsonpath="{range .items[?(@.regarding.name=='$1')]}{.reason}: {.note}{'\n'}{end}"; }
first_step() { as_user logs "$(launcher_pod "$1")" | grep -oE '"step":[0-9]+,"epoch"' | head -1 | grep -oE '[0-9]+'; }

kept digits 100 0.01
wait_condition digits Succeeded True
first=$(as_user get trainingjob digits -o jsonpath='{.metadata.uid}')
[ -f "$volume/restore/digits/$first/1.1-100/DONE" ] || fail "the first job's checkpoint is not in its own folder: $(find "$volume" -name DONE)"
[ "$(status_field digits checkpoint.bytes)" -gt 0 ] || fail "the status does not say what the checkpoints hold"

as_user delete trainingjob digits --wait >/dev/null
kept digits 100 0.02
wait_condition digits Succeeded True
assert_equal "the first step of the corrected job" 1 "$(first_step digits)"
assert_equal "the reason" Completed "$(condition digits Succeeded reason)"
told() { events digits | grep -F "restoreFrom: {job: digits}" >/dev/null; }
wait_for "an event that names restoreFrom" 30 told
assert_equal "condition Restored" StartedAfresh "$(condition digits Restored reason)"

kept longer 150 0.02 "restoreFrom: {job: digits}"
wait_condition longer Succeeded True
assert_equal "the first step of the job that goes on" 101 "$(first_step longer)"
assert_contains "condition Restored" "step 100 of .*restore/digits/.*--steps=100 instead of 150" "$(condition longer Restored message)"

kept nothing 100 0.02 "restoreFrom: {path: restore/digits/$first}"
wait_condition nothing Succeeded True
assert_equal "the reason of a job that trained nothing" AlreadyComplete "$(condition nothing Succeeded reason)"
