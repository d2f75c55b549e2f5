#!/usr/bin/env bash
# Tests that every variation passes helm's strict lint, renders the same bytes twice and sets flags that the operator (argument 1)
# accepts. Also tests that values.yaml and the operator have the same defaults, except the preset gpu.
. "$(dirname "$0")/lib.sh"
operator=${1:?the operator\'s program}

# Prints the configuration that the operator reads from the arguments. The identity and the address of the API server are fixed,
# because they would differ in each run.
configuration() { # arguments...
  POD_NAME=operator "$operator" --kubeconfig="$work/kubeconfig" --namespace=ringmaster-system --identity=me --print-config "$@"
}
cat >"$work/kubeconfig" <<'Y'
{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
 users: [{name: a, user: {token: t}}], contexts: [{name: a, context: {cluster: a, user: a}}]}
Y

for values in "$defaults" "${variations[@]}"; do
  name=$(name_of "$values")
  helm lint --strict --quiet "$chart" --namespace ringmaster-system --values "$defaults" --values "$values" || fail "helm lint failed for $name"
  render --values "$values" >"$work/$name.1"
  render --values "$values" >"$work/$name.2"
  cmp "$work/$name.1" "$work/$name.2" || fail "$name renders differently the second time"
  mapfile -t arguments < <(arguments_in "$work/$name.1")
  [ ${#arguments[@]} -ge 7 ] || fail "$name: only ${#arguments[@]} arguments found"
  configuration "${arguments[@]}" >"$work/$name.configuration" || fail "$name: the operator rejected ${arguments[*]}"
done
configuration >"$work/own.configuration"
# By default, only the chart has a preset (gpu, which allows nothing beyond an ordinary Pod) and sets the names of its images.
grep -F 'presets: {"gpu":{"description"' "$work/defaults.configuration" >/dev/null || fail "the defaults do not include the preset gpu"
of_charts='^(presets|toolsImage|workerImage|ownImages):'
diff <(grep -vE "$of_charts" "$work/own.configuration") <(grep -vE "$of_charts" "$work/defaults.configuration") ||
  fail "the defaults of values.yaml and of the operator differ"
grep -x "workerImage: registry.example.com/ringmaster-worker:$("$here/../../release/version.sh")" "$work/defaults.configuration" >/dev/null ||
  fail "the release's worker image does not reach the operator"
grep -x 'workerImage: (none)' "$work/no_worker_image.configuration" >/dev/null || fail "workerImage.enabled does not reach the operator"
grep -x 'excludeNamespaces: kube-system,team-a' "$work/excluded_namespaces.configuration" >/dev/null || fail "excludeNamespaces does not reach the operator"
grep -x 'jobNetworkPolicies: false' "$work/no_job_network_policies.configuration" >/dev/null || fail "jobNetworkPolicies does not reach the operator"
for name in no_apply_warnings watched_namespace own_namespace; do
  ! grep ValidatingAdmissionPolicy "$work/$name.1" >/dev/null || fail "$name installs a cluster-wide ValidatingAdmissionPolicy"
done
grep -A14 '^kind: ValidatingAdmissionPolicyBinding' "$work/defaults.1" | grep -F 'validationActions: [Warn]' >/dev/null || fail "the ValidatingAdmissionPolicy rejects jobs instead of warning"
grep -F 'operator: NotIn, values: ["kube-system","team-a"]' "$work/excluded_namespaces.1" >/dev/null || fail "the ValidatingAdmissionPolicy covers excluded namespaces"
! grep networkpolicies "$work/no_job_network_policies.1" >/dev/null || fail "the operator has unneeded permissions on NetworkPolicies"
for line in workers:\ 8 logLevel:\ debug logFormat:\ json leaseName:\ my.lease leaseDurationMillis:\ 15000 retryPeriodMillis:\ 1500; do
  grep -xF "$line" "$work/flags.configuration" >/dev/null || fail "the flags' configuration lacks $line"
done
for name in defaults service_monitor; do
  grep -x 'metricsAuthorization: true' "$work/$name.configuration" >/dev/null || fail "$name: /metrics does not require authorization"
  grep -A12 'metrics-reader' "$work/$name.1" | grep -F 'nonResourceURLs: [/metrics]' >/dev/null || fail "$name: no ClusterRole grants access to /metrics"
done
grep -x 'metricsAuthorization: false' "$work/watched_namespace.configuration" >/dev/null || fail "the operator reviews tokens without a ClusterRole that permits it"
! grep -E 'tokenreviews|metrics-reader|bearerTokenFile' "$work/watched_namespace.1" >/dev/null || fail "a release without a ClusterRole refers to tokens"
grep -x 'metricsCertificates: /etc/ringmaster/metrics-certificates' "$work/service_monitor.configuration" >/dev/null || fail "certificateSecret does not reach the operator"
for name in defaults watched_namespace; do
  grep -A99 '^kind: NetworkPolicy' "$work/$name.1" | grep -A1 -E '^ +from:$' | grep -F -- '- podSelector: {}' >/dev/null ||
    fail "$name: the NetworkPolicy must admit only the release's namespace"
done
! grep '^kind: NetworkPolicy' "$work/no_network_policy.1" >/dev/null || fail "a NetworkPolicy was rendered although networkPolicy is off"
grep -x 'watchNamespace: team-a' "$work/watched_namespace.configuration" >/dev/null || fail "watchNamespace does not reach the operator"
for part in '"gpu":{"description"' '"namespaces":["*"]' '"namespaces":["team-a","team-b"]' '"capabilities":["IPC_LOCK"]'; do
  grep '^presets: {' "$work/presets.configuration" | grep -F "$part" >/dev/null || fail "presets do not reach the operator: $part"
done
# The operator's Pods, the Pod of `helm test` and that of the last step of `helm uninstall` are scheduled and labelled in the same way.
# Only the operator's Pods must keep apart from each other, so that the Pod of `helm test` can run beside them.
while read -r name expected line; do
  count=$(grep -cF -- "$line" "$work/$name.1")
  [ "$count" = "$expected" ] || fail "$name: $count of the three kinds of Pods have '$line', expected $expected"
done <<'T'
high_availability 1 podAntiAffinity:
high_availability 3 nodeAffinity:
names_and_labels 3 cluster-autoscaler.kubernetes.io/safe-to-evict: "true"
names_and_labels 3 team: platform
scheduling 3 node-role.kubernetes.io/control-plane: ""
T
# `helm install` also renders the notes.
for value in affinity presets metrics.certificateSecret; do
  helm install ringmaster "$chart" --dry-run=client --namespace ringmaster-system --values "$defaults" --set "$value=null" >"$work/null" ||
    fail "$value cannot be null, as other values can"
  ! grep metrics-certificates "$work/null" >/dev/null || fail "$value=null: the operator expects a certificate"
done
[ "$(sed -n '/^kind: Job$/,/^---/p' "$work/service_monitor.1" | grep -cE -- '--release-jobs|metrics-certificates')" = 1 ] ||
  fail "the last step of helm uninstall cannot run without the Secret of the certificate"
! grep 'aggregate-to' <(sed -n '/^  name: .*-profiles$/,/^---/p' "$work/defaults.1") >/dev/null || fail "the ClusterRole edit includes write access to profiles"
rights_of() { sed -n "/^  name: $1\$/,/^---/p" "$work/defaults.1" | grep -A1 localtrainingprofiles | sed -n 's/.*verbs: //p'; }
[ "$(rights_of ringmaster-view)$(rights_of ringmaster-edit)" = '[get, list, watch]' ] || fail "view and edit must have read-only access to local profiles"
[ "$(rights_of ringmaster-operator)" = '[list, watch, create, patch, delete]' ] || fail "unexpected permissions of the operator on local profiles: $(rights_of ringmaster-operator)"
for name in watched_namespace own_namespace; do ! grep -w namespaces "$work/$name.1" | grep resources >/dev/null || fail "$name grants access to Namespaces"; done
[ "$("$operator" --version)" = "ringmaster-operator $(helm show chart "$chart" | sed -n 's/^appVersion: //p')" ] ||
  fail "appVersion of Chart.yaml differs from $("$operator" --version)"
helm package "$chart" --destination "$work" >/dev/null
chart=$(echo "$work"/ringmaster-*.tgz)
render | cmp - "$work/defaults.1" || fail "the packaged chart renders differently"

# The chart as a dependency of another chart: with a condition and an alias. The name in the operator's labels must stay, because the
# NetworkPolicies of jobs admit the operator by it.
mkdir -p "$work/umbrella/charts"
cp "$chart" "$work/umbrella/charts/"
cat >"$work/umbrella/Chart.yaml" <<Y
{apiVersion: v2, name: umbrella, version: 0.1.0, dependencies: [{name: ringmaster, version: ">0.0.0-0", alias: rm, condition: rm.enabled}]}
Y
echo 'rm: {enabled: true, image: {registry: registry.example.com}}' >"$work/umbrella/values.yaml"
helm template platform "$work/umbrella" --namespace ringmaster-system >"$work/umbrella.yaml" || fail "the chart cannot be a dependency with a condition and an alias"
diff <(sed -n '/^kind: Deployment/,/^---/p' "$work/defaults.1" | grep -o 'app.kubernetes.io/name: .*') \
  <(sed -n '/^kind: Deployment/,/^---/p' "$work/umbrella.yaml" | grep -o 'app.kubernetes.io/name: .*') ||
  fail "with an alias, the operator's Pods have another app.kubernetes.io/name, which the NetworkPolicies of jobs do not admit"
! helm template platform "$work/umbrella" --set rm.enabled=false | grep '^kind:' >/dev/null || fail "the condition of a dependency has no effect"
echo "${#variations[@]} variations and the defaults rendered"
