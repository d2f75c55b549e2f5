#!/usr/bin/env bash
# Tests helm with a real API server: a release is installed, upgraded from a chart with an older CRD, removed and installed again;
# TrainingJobs survive all these steps. A release can take over the objects of install.yaml.
. "$(dirname "$0")/lib.sh"
. "$here/api_server.sh"
release() { helm "$1" ringmaster "${@:2}" --namespace ringmaster-system >"$work/helm.log" 2>&1 || fail "helm $1: $(cat "$work/helm.log")"; }
operator() { kubectl -n ringmaster-system get deployment ringmaster-operator -o jsonpath="{.spec.template.spec.containers[0].$1}"; }
columns() { kubectl get crd trainingjobs.ringmaster.dev -o jsonpath='{.spec.versions[0].additionalPrinterColumns[*].name}'; }
kept_roles() { kubectl get clusterroles -o name | grep -cE '/ringmaster-(view|edit)$' || true; }
job_uid() { kubectl get trainingjob kept -o jsonpath='{.metadata.uid}'; }

cp -r "$chart" "$work/older"
sed -i '/{name: Percent,/d' "$work/older/files/"*.yaml
sed -i 's/^version: .*/version: 0.0.9/; s/^appVersion: .*/appVersion: 0.0.9/' "$work/older/Chart.yaml"
restricted_namespace ringmaster-system
release install "$work/older" --values "$defaults"
kubectl wait --for=condition=Established crd/trainingjobs.ringmaster.dev --timeout="$limit" >/dev/null
[[ $(columns) != *Percent* ]] || fail "the older chart installed the newer CRD"
cat >"$work/job.yaml" <<'Y'
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: kept, namespace: default}
spec: {image: a, command: [b], worker: {replicas: 1}}
Y
kubectl apply -f "$work/job.yaml" >/dev/null
uid=$(job_uid)
[ "$(kubectl get trainingjob kept -o jsonpath='{.status.observedGeneration}')" = -1 ] || fail "a job without an operator must have observedGeneration -1"

release upgrade "$chart" --values "$defaults" --set logLevel=debug
[[ $(columns) = *Percent* ]] || fail "the upgrade did not update the CRD"
[[ $(operator args) = *--log-level=debug* ]] || fail "the upgrade did not update the operator's arguments"
[ "$(operator image)" = "registry.example.com/ringmaster-operator:$(helm show chart "$chart" | sed -n 's/^appVersion: //p')" ] || fail "the upgrade did not update the operator's image"
grep 'rollout status deployment/ringmaster-operator' "$work/helm.log" >/dev/null || fail "the chart's notes do not show the rollout command"

# There is no kubelet to run Pods, so the hook, a Job, would not end; the test checks the hook's objects instead.
helm get hooks ringmaster --namespace ringmaster-system >"$work/hooks.yaml"
grep -x -- '            - --release-jobs' "$work/hooks.yaml" >/dev/null || fail "no hook releases the jobs: $(cat "$work/hooks.yaml")"
release uninstall --no-hooks
[ "$(job_uid)" = "$uid" ] || fail "uninstalling deleted the job"
[ "$(kept_roles)" = 2 ] || fail "uninstalling deleted the users' permissions on the remaining jobs"
[ -z "$(kubectl -n ringmaster-system get all,roles,rolebindings,pdb,networkpolicies -o name)" ] || fail "uninstalling did not delete all objects"
release install "$chart" --values "$defaults" --set podDisruptionBudget.enabled=true,networkPolicy.enabled=true,metrics.service.enabled=true
[ "$(job_uid)" = "$uid" ] || fail "reinstalling deleted the job"

# A second release for one namespace is installed next to the first; they share the CRD and the user roles.
helm install team-a "$chart" --values "$defaults" --namespace team-a --create-namespace --set watchNamespace=team-a,crds.install=false,rbac.userRoles=false \
  >"$work/helm.log" 2>&1 || fail "failed to install a second release: $(cat "$work/helm.log")"
kubectl -n team-a get deployment team-a-ringmaster-operator >/dev/null

release upgrade "$chart" --values "$defaults" --set crds.keep=false
release uninstall --no-hooks
kubectl wait --for=delete crd/trainingjobs.ringmaster.dev --timeout="$limit" >/dev/null || fail "the CRD still exists with crds.keep=false"
[ "$(kept_roles)" = 0 ] || fail "roles for the deleted CRD still exist with crds.keep=false"

kubectl apply -f "$repository/deploy/install.yaml" >/dev/null 2>&1
if helm install ringmaster "$chart" --values "$defaults" --namespace ringmaster-system >/dev/null 2>&1; then fail "helm adopted the objects of install.yaml without an error"; fi
release install "$chart" --values "$defaults" --take-ownership --force-conflicts
