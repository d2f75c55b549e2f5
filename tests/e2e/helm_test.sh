#!/usr/bin/env bash
# Tests that a running job's Pods and ranks are not disturbed when the release is upgraded, tested, uninstalled and installed again.
. "$(dirname "$0")/lib.sh"
new_namespace helm
# Install the operator again even if this test fails, because the other tests need it.
clean_up() { install_chart; }

CPU=200m job long 2 "$(generated 1000000)" | as_user apply -f -
CPU=200m job held 1 "$(generated 1000000)" '  checkpoint: {onDelete: Delete, volume: {emptyDir: {}}}' | as_user apply -f -
wait_for "the first step" 60 at_step long 1
# Reads the job as administrator, because without the release the user's roles do not include TrainingJobs.
of_job() { kubectl -n "$namespace" get trainingjob long -o jsonpath="{.status.$1}"; }
pods_and_epoch() { kubectl -n "$namespace" get pods -l ringmaster.dev/job-name=long -o jsonpath='{range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount} {end}' && of_job epoch; }
undisturbed() { # after what
  assert_equal "Pods and epoch after $1" "$before" "$(pods_and_epoch)"
  step=$(of_job progress.step)
  wait_for "progress after $1" 60 at_step long $((step + 1))
}
operators() { kubectl -n ringmaster-system get pods -l app.kubernetes.io/component=operator -o jsonpath='{.items[*].metadata.uid}'; }
before=$(pods_and_epoch)
old=$(operators)

install_chart --set logLevel=debug,podDisruptionBudget.enabled=true,networkPolicy.enabled=true,metrics.service.enabled=true
assert_lacks "operators after the upgrade" "^$old\$" "$(operators)"
undisturbed "the upgrade"

helm test ringmaster -n ringmaster-system --timeout=$((120 * patience))s >/dev/null || fail "helm test"
undisturbed "helm test"
# If the operator lacks a permission, `helm test` fails and names the permission.
kubectl delete clusterrolebinding ringmaster-operator >/dev/null
if helm test ringmaster -n ringmaster-system --timeout=20s >/dev/null 2>&1; then fail "helm test passed without the operator's permissions"; fi
names_the_right() { kubectl -n ringmaster-system logs ringmaster-test -c standby | grep trainingjobs; }
wait_for "the test to say which right is missing" 60 names_the_right
kubectl -n ringmaster-system delete pod ringmaster-test --wait >/dev/null
install_chart
undisturbed "the rights' return"

finalizers() { kubectl -n "$namespace" get trainingjob held -o jsonpath='{.metadata.finalizers[*]}'; }
assert_equal "finalizers of a job whose checkpoints go with it" ringmaster.dev/checkpoints "$(finalizers)"
helm uninstall ringmaster -n ringmaster-system --wait >/dev/null
kubectl get crd trainingjobs.ringmaster.dev -o name >/dev/null || fail "uninstalling deleted the CRD"
assert_equal "Pods without an operator" "$before" "$(pods_and_epoch)"
managed() { of_job 'conditions[?(@.type=="Managed")].status'; }
assert_equal "Managed after uninstalling" False "$(managed)"
assert_equal "finalizers of a job whose checkpoints go with it, after uninstalling" "" "$(finalizers)"
kubectl -n "$namespace" delete trainingjob held --timeout=$((60 * patience))s >/dev/null || fail "the job was not deleted"
! kubectl -n ringmaster-system get jobs,serviceaccounts -o name | grep uninstall >/dev/null || fail "the hook did not delete its objects"
install_chart
undisturbed "installing again"
# shellcheck disable=SC2016  # evaluated at each attempt
wait_for "the job to be managed again" 60 eval '[ "$(managed)" = True ]'
