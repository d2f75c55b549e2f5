#!/usr/bin/env bash
# Tests that a real API server with strict validation accepts every variation without a warning, in namespaces that
# enforce Pod Security `restricted`. Also tests that the operator (argument 1) becomes ready with the permissions that
# the chart grants.
. "$(dirname "$0")/lib.sh"
. "$here/api_server.sh"
operator=${1:?the operator\'s program}

apply() { # file: deletes the previous objects, because Pods and selectors are immutable, and applies the file
  kubectl -n ringmaster-system delete --ignore-not-found --wait=false --force --grace-period=0 pods,jobs,deployments --all >/dev/null 2>&1
  kubectl apply --server-side --force-conflicts --validate=strict -f "$1" >"$work/applied" 2>&1 || fail "$1: $(grep -v serverside-applied "$work/applied")"
  ! grep -i warning "$work/applied" || fail "$1: a warning"
}

# Prints two free ports. They are outside the ephemeral range, so that no outgoing connection takes them.
free_ports() {
  python3 -c 'import random, socket
def free(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0
print(*[next(p for p in iter(lambda: random.randrange(first, first + 11000), None) if free(p)) for first in (10000, 21000)])'
}

# Runs the operator with a release's arguments and ServiceAccount until it is ready.
becomes_ready() { # file account
  local port metrics pid deadline=$((SECONDS + 60 * ${RINGMASTER_PATIENCE:-1})) arguments
  : >"$work/answer"
  mapfile -t arguments < <(arguments_in "$1")
  cp "$KUBECONFIG" "$work/operator.kubeconfig"
  kubectl --kubeconfig "$work/operator.kubeconfig" config set-credentials operator --token="$(kubectl -n ringmaster-system create token "$2")" >/dev/null
  kubectl --kubeconfig "$work/operator.kubeconfig" config set-context --current --user=operator >/dev/null
  read -r port metrics < <(free_ports)
  "$operator" --kubeconfig="$work/operator.kubeconfig" --namespace=ringmaster-system --admin-address=127.0.0.1 --admin-port="$port" \
    --metrics-address=127.0.0.1 --metrics-port="$metrics" "${arguments[@]}" >"$work/operator.log" 2>&1 &
  pid=$!
  until [ "$(curl -s -o "$work/answer" -w '%{http_code}' "http://127.0.0.1:$port/readyz")" = 200 ] || [ $SECONDS -ge $deadline ]; do
    sleep 0.2
  done
  kill "$pid" || true
  wait "$pid" || true
  [[ $(cat "$work/answer") = ok* ]] || fail "$1: the operator is not ready: $(cat "$work/answer")"
}

kubectl apply --server-side -f "$here/prometheus_operator_crds.yaml" >/dev/null
kubectl wait --for=condition=Established crd/servicemonitors.monitoring.coreos.com crd/prometheusrules.monitoring.coreos.com --timeout="$limit" >/dev/null
restricted_namespace ringmaster-system
kubectl create namespace team-a >/dev/null
for account in given.account default; do kubectl -n ringmaster-system create serviceaccount "$account" >/dev/null; done

render >"$work/default.yaml"
apply "$work/default.yaml"
crds=(crd/trainingjobs.ringmaster.dev crd/trainingprofiles.ringmaster.dev crd/localtrainingprofiles.ringmaster.dev)
kubectl wait --for=condition=Established "${crds[@]}" --timeout="$limit" >/dev/null
lists_without_type=$(kubectl get "${crds[@]}" -o json | jq -r '.items[].spec.versions[].schema.openAPIV3Schema.properties.spec
  | paths(type == "object" and .type == "array" and (has("x-kubernetes-list-type") | not)) | join(".")')
[ -z "$lists_without_type" ] || fail "server-side apply has no merge type for $lists_without_type"
becomes_ready "$work/default.yaml" ringmaster-operator

# A valid spec with a likely mistake is accepted with a warning that names the field; other valid specs cause no warning.
kubectl create namespace samples >/dev/null
job() { # name spec
  echo "{apiVersion: ringmaster.dev/v1alpha1, kind: TrainingJob, metadata: {name: $1}, spec: {$2}}"
}
advice_for() { # spec: the warnings
  job advised "$1" | kubectl -n samples apply --dry-run=server -f - 2>"$work/advice" >/dev/null || fail "refused: $(cat "$work/advice")"
  cat "$work/advice"
}
deadline=$((SECONDS + 30 * ${RINGMASTER_PATIENCE:-1}))
until [[ $(advice_for 'image: a, command: [b]') = *spec.image* ]]; do
  [ $SECONDS -lt $deadline ] || fail "no warning about an image without a tag"
  sleep 0.2
done
while IFS='|' read -r field spec; do
  said=$(advice_for "$spec")
  [[ -n $field && $said = *"$field "* || -z $field && -z $said ]] || fail "expected a warning about '$field' for {$spec}, got: $said"
done <<'T'
spec.image|image: "a:latest", command: [b]
spec.image|image: "registry.example.com:5000/a", command: [b]
|image: "registry.example.com:5000/a:1", command: [b]
|image: "a@sha256:0123", command: [b], worker: {replicas: 4, minReplicas: 1}, suspend: true
spec.command|image: "a:1", command: [/bin/bash, -c, ringmaster-train --workload=mnist]
|image: "a:1", command: [sh, -c, exec ringmaster-train], elasticity: {mode: InPlace}
|image: "a:1", command: [sh, -c, python train.py]
spec.command|image: "a:1", command: [torchrun, train.py], worker: {gpus: 8}
spec.command|image: "a:1", command: [sh, -c, exec torchrun train.py]
spec.command|image: "a:1", command: [python, -m, torch.distributed.run, train.py]
|image: "a:1", command: [torchrun, --nnodes=2, train.py]
|image: "a:1", command: [torchrun, train.py], launchMode: PerWorker
|image: "a:1", command: [/usr/bin/ringmaster-train, --workload=mnist]
spec.checkpoint.volume|image: "a:1", command: [b], checkpoint: {volume: {emptyDir: {}}}
spec.runPolicy.startTimeoutSeconds|image: "a:1", command: [b], runPolicy: {startTimeoutSeconds: 60, activeDeadlineSeconds: 60}
|image: "a:1", command: [b], checkpoint: {volume: {persistentVolumeClaim: {claimName: a}}}, runPolicy: {startTimeoutSeconds: 60, activeDeadlineSeconds: 600}
T
suspension_of() { # name spec: suspends a new job and prints the warnings
  job "$1" "$2" | kubectl -n samples apply -f - >/dev/null || fail "$1 is refused"
  kubectl -n samples patch "trainingjob/$1" --type=merge -p '{"spec": {"suspend": true}}' 2>"$work/advice" >/dev/null || fail "refused: $(cat "$work/advice")"
  cat "$work/advice"
}
[[ $(suspension_of loses 'image: "a:1", command: [b]') = *'spec.checkpoint '* ]] || fail "no warning about a suspension that loses the state"
[ -z "$(suspension_of keeps 'image: "a:1", command: [b], checkpoint: {volume: {persistentVolumeClaim: {claimName: a}}}')" ] || fail "unexpected warning about a suspension that keeps the state"
kubectl -n samples annotate trainingjob/loses a=b >"$work/advice" 2>&1
! grep -i warning "$work/advice" || fail "unexpected warning about the spec after a change of an annotation"

# A user who applies a profile outside the operator's namespace, where it has no effect, gets a warning.
profile_in() { # namespace: the warnings
  echo '{apiVersion: ringmaster.dev/v1alpha1, kind: TrainingProfile, metadata: {name: gpus}, spec: {}}' |
    kubectl -n "$1" apply --dry-run=server -f - 2>"$work/advice" >/dev/null || fail "refused: $(cat "$work/advice")"
  cat "$work/advice"
}
deadline=$((SECONDS + 30 * ${RINGMASTER_PATIENCE:-1}))
until [[ $(profile_in samples) = *'ringmaster-system, so this one has no effect'* ]]; do
  [ $SECONDS -lt $deadline ] || fail "no warning about a profile outside of the operator's namespace: $(profile_in samples)"
  sleep 0.2
done
[ -z "$(profile_in ringmaster-system)" ] || fail "unexpected warning about a profile in the operator's namespace: $(profile_in ringmaster-system)"

for sample in "$repository"/deploy/samples/*.yaml "$repository"/examples/*/*.yaml; do
  kubectl -n samples apply --dry-run=server --validate=strict -f "$sample" >"$work/applied" 2>&1 || fail "$sample: $(cat "$work/applied")"
  ! grep -i warning "$work/applied" || fail "$sample: a warning"
done
awk -v shown="$work/shown." '/^```yaml$/ {file = shown (++blocks); next} /^```$/ {file = ""} file {print >file}' "$repository"/README.md "$repository"/docs/*.md "$repository"/examples/README.md
mapfile -t shown < <(grep -l '^kind: TrainingJob$' "$work"/shown.*)
[ ${#shown[@]} -ge 6 ] || fail "found only ${#shown[@]} jobs in the pages"
for job in "${shown[@]}"; do
  kubectl -n samples apply --dry-run=server --validate=strict -f "$job" >"$work/applied" 2>&1 || fail "the API server rejected a job from a page: $(cat "$job" "$work/applied")"
done
mapfile -t shown < <(grep -l '^kind: TrainingProfile$' "$work"/shown.*)
[ ${#shown[@]} -ge 1 ] || fail "no page contains a profile"
for shown_profile in "${shown[@]}"; do
  kubectl apply --dry-run=server --validate=strict -f "$shown_profile" >"$work/applied" 2>&1 || fail "the API server rejected a profile from a page: $(cat "$work/applied")"
done
for values in "${variations[@]}"; do
  name=$(name_of "$values")
  render --values "$values" >"$work/$name.yaml"
  apply "$work/$name.yaml"
done
release_name=the-longest-name-that-a-release-may-have-is-this-long render --set metrics.service.enabled=true >"$work/long.yaml"
apply "$work/long.yaml"

# Install a release for one namespace without cluster-wide permissions: its Roles are enough for this namespace and
# grant nothing in others.
kubectl delete clusterrolebinding ringmaster-operator training-operator --ignore-not-found >/dev/null
for name in watched_namespace own_namespace; do
  ! grep -E '^kind: Cluster' "$work/$name.yaml" >/dev/null || fail "$name contains cluster-scoped objects"
  kubectl delete rolebinding --all -n ringmaster-system >/dev/null
  apply "$work/$name.yaml"
  becomes_ready "$work/$name.yaml" ringmaster-operator
done
apply "$work/watched_namespace.yaml"
may() { kubectl auth can-i "$@" --as system:serviceaccount:ringmaster-system:ringmaster-operator 2>/dev/null || true; }
[ "$(may create pods -n team-a)" = yes ] || fail "the operator has no permissions in the watched namespace"
[ "$(may create pods -n default)$(may list nodes)$(may list trainingjobs.ringmaster.dev -A)" = nonono ] || fail "the operator has permissions outside the watched namespace"
[ "$(may get secrets -n team-a)$(may get secrets -n ringmaster-system)" = nono ] || fail "the operator may read Secrets"
echo "${#variations[@]} variations and the defaults accepted by the API server"
