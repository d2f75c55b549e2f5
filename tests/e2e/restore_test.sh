#!/usr/bin/env bash
# Tests that a new job does not use the checkpoints of a deleted job of the same name: it trains from its first step, and an event
# says how to continue from a checkpoint instead. With restoreFrom the job continues from the checkpoint;
# if the checkpoint is at the last step, the job's status says so. With `onDelete: Delete`, only the folder of the deleted job is deleted.
. "$(dirname "$0")/lib.sh"
new_namespace restore
shared_volume states

kept() { # name, steps, learning rate[, more under checkpoint]: applies a job that keeps its checkpoints on the volume
  job "$1" 1 "[ringmaster-train, --workload=mnist, --data=generated, --global-batch=48, --steps=$2, --seed=7, --learning-rate=$3]" \
    "  checkpoint: {everySteps: 50, volume: {persistentVolumeClaim: {claimName: states}}${4:+, $4}}" | as_user apply -f - >/dev/null
}
events() { as_user get events.events.k8s.io -o jsonpath="{range .items[?(@.regarding.name=='$1')]}{.reason}: {.note}{'\n'}{end}"; }
complete() { compgen -G "$1/1.*-100/DONE" >/dev/null; } # the checkpoint of step 100, in whichever epoch of the first launcher
first_step() { as_user logs "$(launcher_pod "$1")" | grep -oE '"step":[0-9]+,"epoch"' | head -1 | grep -oE '[0-9]+'; }

kept digits 100 0.01
wait_condition digits Succeeded True
first=$(as_user get trainingjob digits -o jsonpath='{.metadata.uid}')
complete "$volume/restore/digits/$first" || fail "the first job's checkpoint is not in its own folder: $(find "$volume" -name DONE)"
[ "$(status_field digits checkpoint.bytes)" -gt 0 ] || fail "status.checkpoint does not contain the size of the checkpoints"

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

# Delete a job with the finalizer while it trains. Its containers do not run as root.
folders() { find "$volume" -mindepth 3 -maxdepth 3 -type d | sort; }
has_checkpoint() { [ -n "$(find "$volume/restore/gone" -name DONE 2>/dev/null)" ]; }
before=$(folders)
kept gone 100000 0.02 "onDelete: Delete"
wait_for "a checkpoint of the job that will be deleted" 90 has_checkpoint
assert_equal "finalizers" '["ringmaster.dev/checkpoints"]' "$(as_user get trainingjob gone -o jsonpath='{.metadata.finalizers}')"
as_user delete trainingjob gone --wait --timeout=$((120 * patience))s >/dev/null
assert_equal "folders of jobs after one was deleted with its checkpoints" "$before" "$(folders)"
removed() { events gone | grep -F "CheckpointsRemoved: Removed restore/gone/" >/dev/null; }
wait_for "an event that says what was removed" 30 removed
assert_equal "Pods that are left" "" "$(as_user get pods -l ringmaster.dev/job-name=gone -o name)"

# A job that has ended is deleted in the foreground.
kept gone 100 0.02 "onDelete: Delete"
wait_condition gone Succeeded True
as_user delete trainingjob gone --cascade=foreground --wait --timeout=$((120 * patience))s >/dev/null
assert_equal "folders after a deletion in the foreground" "$before" "$(folders)"

# A link in place of the folder is not followed, and does not block the deletion.
kept linked 100 0.02 "onDelete: Delete"
wait_condition linked Succeeded True
uid=$(as_user get trainingjob linked -o jsonpath='{.metadata.uid}')
mv "$volume/restore/linked/$uid" "$volume/moved" && ln -s ../../moved "$volume/restore/linked/$uid"
as_user delete trainingjob linked --wait --timeout=$((120 * patience))s >/dev/null
complete "$volume/moved" || fail "the target of a symbolic link was removed"
left() { events linked | grep "CheckpointsLeft: Left restore/linked/$uid .*links are not followed" >/dev/null; }
wait_for "an event that says what was left" 30 left

# The finalizer does not block the deletion of a namespace.
kept last 100000 0.02 "onDelete: Delete"
wait_for "the first step" 60 at_step last 1
kubectl delete namespace "$namespace" --wait --timeout=$((120 * patience))s >/dev/null || fail "a job's checkpoints block the deletion of the namespace"
