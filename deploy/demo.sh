#!/usr/bin/env bash
# Runs the demo on a bare machine: installs the missing packages, starts the embedded local cluster (three real nodes), installs
# Ringmaster, and trains a network on images of handwritten digits with three workers, as a user who may only edit one namespace.
#
#   CLUSTER=local      the embedded cluster NAME (default ringmaster), which keeps running until `make cluster-down`
#   CLUSTER=existing   the cluster of KUBECONFIG; OPERATOR_IMAGE and WORKER_IMAGE name images that it can pull
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/lib.sh
CLUSTER=${CLUSTER:-local} NAME=${NAME:-ringmaster} NODES=${NODES:-3}
namespace=team-a job=digits
export CCACHE_BASEDIR=$repository CCACHE_NOHASHDIR=1

start_local_cluster() {
  say "Debian packages"
  deploy/local/prerequisites.sh
  say "Kubernetes, built once into the cache"
  deploy/local/build.sh
  say "images: operator, tools and worker (Debian 13: Open MPI 5, LibTorch 2.15)"
  images/build.sh operator tools worker-debian13
  say "a cluster of $NODES nodes"
  deploy/local/cluster.sh --name "$NAME" up "$NODES"
  eval "$(deploy/local/cluster.sh --name "$NAME" env)"
  say "images into the nodes"
  # shellcheck disable=SC2046  # each word is a path
  deploy/local/cluster.sh --name "$NAME" load $(images/build.sh --archives operator tools worker-debian13)
}

# Prints the kubeconfig of a user who may edit one namespace. On an existing cluster, prints the caller's kubeconfig.
user_kubeconfig() {
  if [ "$CLUSTER" = local ]; then
    deploy/local/cluster.sh --name "$NAME" user ada "$namespace"
  else
    echo "${KUBECONFIG:?KUBECONFIG must name the existing cluster}"
  fi
}

wait_for_job() {
  local line last='' deadline=$((SECONDS + 300))
  while [ $SECONDS -lt $deadline ]; do
    line=$(as_user get trainingjob $job --no-headers 2>/dev/null || true)
    line=${line% *}
    [ "$line" = "$last" ] || echo "    $line"
    last=$line
    case $line in *" Succeeded "*) return 0 ;; *" Failed "*) return 1 ;; esac
    as_user wait --for=condition=Succeeded trainingjob/$job --timeout=1s >/dev/null 2>&1 || true
  done
  return 1
}

explain_failure() {
  as_user describe trainingjob $job || true
  as_user get pods -o wide || true
  as_user logs "$(launcher_pod)" --tail=40 || true
  die "the job did not succeed; see its status above"
}

launcher_pod() { as_user get pods -l ringmaster.dev/role=launcher -o name --sort-by=.metadata.creationTimestamp | tail -1; }

[ "$CLUSTER" = local ] && start_local_cluster
say "Ringmaster's operator"
install_ringmaster
restricted_namespace $namespace
user=$(user_kubeconfig)
as_user() { kubectl --kubeconfig "$user" -n $namespace "$@"; }
say "the data: real handwriting, as a ConfigMap"
digits_config_map "$user" $namespace
as_user delete trainingjob $job --ignore-not-found --cascade=foreground >/dev/null

say "kubectl apply -f deploy/samples/digits.yaml   (as a user who may only edit namespace $namespace)"
begin=$SECONDS
as_user apply -f deploy/samples/digits.yaml
wait_for_job || explain_failure

log=$(as_user logs "$(launcher_pod)")
say "trained in $((SECONDS - begin)) s; what a user sees"
echo "\$ kubectl get trainingjobs";  as_user get trainingjobs
echo; echo "\$ kubectl get pods -o wide"; as_user get pods -o wide | awk '{print $1, $3, $7}' | column -t
echo; echo "the line that started the ranks:"; grep -o 'mpirun --.*' <<<"$log" | head -1 | fold -s -w 160 | sed 's/^/    /'
echo; echo "the step log's summary:"; grep -o '{"summary".*}' <<<"$log" | tail -1 | sed 's/^/    /'
accuracy=$(as_user get trainingjob $job -o jsonpath='{.status.progress.accuracy}')
awk -v a="${accuracy:-0}" 'BEGIN {exit !(a >= 0.92)}' || die "accuracy on unseen writers is ${accuracy:-unknown}, below 0.92"
cat <<EOF

accuracy on handwriting of writers whom the network has not seen (382 of scikit-learn's 1,797 digits): $accuracy

where things are
    the job            deploy/samples/digits.yaml
    its log            kubectl -n $namespace logs $(launcher_pod)
    as this user       export KUBECONFIG=$user
EOF
if [ "$CLUSTER" = local ]; then
  echo "    as administrator   eval \"\$(deploy/local/cluster.sh --name $NAME env)\""
  echo "    stop the cluster   make cluster-down"
fi
