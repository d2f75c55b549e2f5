#!/usr/bin/env bash
# Tests a job whose image does not contain Ringmaster and gets the programs from an image volume, on a node whose container runtime
# can mount one. Uses a separate cluster.
. "$(dirname "$0")/../../deploy/lib.sh"
set -euo pipefail
name=volumes-$(cksum <<<"$repository" | cut -d' ' -f1)
cluster() { RINGMASTER_CONTAINERD=$programs/containerd "$repository/deploy/local/cluster.sh" --name "$name" "$@"; }
work=$(mktemp -d)
end() {
  local code=$?
  set +e
  [ $code -eq 0 ] || { kubectl -n volumes describe trainingjobs,pods | tail -80; kubectl -n ringmaster-system logs deployment/ringmaster-operator --tail=30; }
  cluster down >/dev/null 2>&1
  rm -rf "$work"
  exit $code
}
"$repository/deploy/local/build.sh" kubernetes etcd helm containerd
programs=$("$repository/deploy/local/build.sh" --print)
cluster down >/dev/null 2>&1 || true
trap end EXIT
cluster up 1
eval "$(cluster env)"

mkdir -p "$work/root/bin"
cp /bin/busybox "$work/root/bin/"
ln -s busybox "$work/root/bin/sh"
"$(dirname "$0")/foreign_image.py" localhost/foreign-busybox:1 "$work/root" "$work/busybox.tar"
mapfile -t archives < <("$repository/images/build.sh" --archives operator tools)
cluster load "$work/busybox.tar" "${archives[@]}" >/dev/null
# shellcheck disable=SC2119 # with the default values
install_chart
restricted_namespace volumes

kubectl apply -f - >/dev/null <<'Y'
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: foreign, namespace: volumes}
spec:
  image: localhost/foreign-busybox:1
  command: [sh, -c, "echo rank $RANK of $WORLD_SIZE"]
  inject: ImageVolume
  worker: {replicas: 2}
Y
succeeded() { kubectl -n volumes get trainingjob foreign -o json | jq -e '.status.state == "Succeeded"'; }
wait_for 'the job to succeed' 60 succeeded
pods=$(kubectl -n volumes get pods -l ringmaster.dev/job-name=foreign,ringmaster.dev/role=launcher -o json)
jq -e '.items[0].spec | (.initContainers // []) == [] and any(.volumes[]; .image.reference == "'"$TOOLS_IMAGE"'")' <<<"$pods" >/dev/null ||
  die "the launcher's Pod has no image volume: $pods"
kubectl -n volumes logs "$(jq -r '.items[0].metadata.name' <<<"$pods")" | grep -F 'rank 0 of 2' >/dev/null || die 'rank 0 did not print'
echo 'a job with programs from an image volume succeeded'
