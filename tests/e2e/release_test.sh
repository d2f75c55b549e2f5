#!/usr/bin/env bash
# Makes a release of this tree, pushes it to a registry, and installs it with only `helm install oci://…` in a cluster without our
# images. A sample then trains, with images only from that registry. The pushed artifacts must be as docs/release.md says.
. "$(dirname "$0")/../../deploy/lib.sh"
work=$(mktemp -d)
name=release-$(cksum <<<"$repository" | cut -c -6)
registry_process=''
fail() { echo "FAILED: $*" >&2; exit 1; }
cluster() { "$repository/deploy/local/cluster.sh" --name "$name" "$@"; }
clean_up() {
  local code=$?
  if [ $code -ne 0 ]; then
    kubectl get pods,trainingjobs -A -o wide || true
    kubectl get events -A --field-selector=type=Warning || true
    tail -n 20 "$work/registry.log" || true
  fi
  cluster down >/dev/null 2>&1 || true
  [ -z "$registry_process" ] || kill "$registry_process" || true
  rm -rf "$work"
  exit $code
}
trap clean_up EXIT
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data DOCKER_CONFIG=$work/docker

"$repository/deploy/local/build.sh" kubernetes etcd helm oras registry
cluster down >/dev/null 2>&1 || true
cluster up 2 >/dev/null
eval "$(cluster env)"

# The registry listens where the nodes can reach it, at a port that the kernel chooses.
start_registry() {
  cat >"$work/registry.yaml" <<Y
version: 0.1
log: {accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "$(cluster address):0"}
Y
  OTEL_TRACES_EXPORTER=none registry serve "$work/registry.yaml" >"$work/registry.log" 2>&1 &
  registry_process=$!
}
port_of_registry() { port=$(ss -Hltnp | sed -n "s/.*$(cluster address):\([0-9]*\) .*pid=$registry_process,.*/\1/p") && [ -n "$port" ]; }
start_registry
wait_for "the registry to listen" 20 port_of_registry
registry=$(cluster address):$port
cluster registry "$registry"

"$repository/release/release.sh" --plain-http --dirty --images-as-they-are --output "$work/release" "$registry/team" >"$work/release.log" 2>&1 ||
  fail "release.sh: $(cat "$work/release.log")"
echo "pushed after $SECONDS s"

helm install ringmaster "oci://$registry/team/charts/ringmaster" --plain-http --namespace ringmaster-system --create-namespace \
  --wait --timeout=$((120 * patience))s >/dev/null || fail "helm install from the registry"
restricted_namespace team-a
kubectl -n team-a apply -f "$repository/deploy/samples/mnist-generated.yaml" >/dev/null
kubectl -n team-a wait --for=condition=Succeeded trainingjob/mnist-generated --timeout=$((180 * patience))s >/dev/null || fail "the sample did not succeed"
echo "installed and trained after $SECONDS s"

digest_of() { jq -r --arg layout "$1" '.[] | select(.layout == $layout) | .digest' "$work/release/images.json"; }
images=$(kubectl get pods -A -o jsonpath='{range .items[*].spec.containers[*]}{.image}{"\n"}{end}' | sort -u)
wanted=$(printf '%s\n' "$registry/team/ringmaster-operator@$(digest_of operator)" "$registry/team/ringmaster-worker@$(digest_of worker-debian13)")
[ "$images" = "$wanted" ] || fail "expected Pods with images $wanted, got $images"

# Each image has a label with its commit, and `oras discover` finds the SBOM of the image.
commit=$(git -C "$repository" rev-parse HEAD)
for image in operator tools worker; do
  reference=$registry/team/ringmaster-$image:$version
  oras manifest fetch-config --plain-http --platform linux/amd64 "$reference" |
    jq -e --arg commit "$commit" '.config.Labels["org.opencontainers.image.revision"] | startswith($commit)' >/dev/null || fail "$reference is not annotated with its commit"
  oras discover --plain-http --platform linux/amd64 --format json "$reference" | grep -F application/spdx+json >/dev/null || fail "$reference has no SBOM"
done
oras manifest fetch --plain-http "$registry/team/ringmaster-tools:$version" | jq -e '[.manifests[].platform.architecture] | sort == ["amd64", "arm64"]' >/dev/null ||
  fail "the tools image is not for amd64 and arm64"
