# shellcheck shell=bash
# Functions that install Ringmaster into a cluster and prepare a namespace for users. The demo, the end-to-end tests and the
# benchmarks source this file. It needs KUBECONFIG (cluster admin) and kubectl in PATH, and also sets `repository`, `version`
# and the names of the images.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RINGMASTER_CACHE=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
version=$("$repository/release/version.sh")
OPERATOR_IMAGE=${OPERATOR_IMAGE:-localhost/ringmaster-operator:$version}
WORKER_IMAGE=${WORKER_IMAGE:-localhost/ringmaster-worker:$version-debian13}
TOOLS_IMAGE=${TOOLS_IMAGE:-${OPERATOR_IMAGE/ringmaster-operator/ringmaster-tools}}

say() { printf '\n==> [%3d s] %s\n' "$SECONDS" "$*"; }
die() { echo "error: $*" >&2; exit 1; }

# All timeouts are multiplied by RINGMASTER_PATIENCE, for machines that are busy with other work.
patience=${RINGMASTER_PATIENCE:-1}

# Polling takes CPU time from the work that the caller waits for, so the interval grows with the time waited.
wait_for() { # what seconds command...: waits until the command succeeds
  local what=$1 begin=$SECONDS waited
  local limit=$(($2 * patience))
  shift 2
  until "$@" >/dev/null 2>&1; do
    waited=$((SECONDS - begin))
    [ $waited -lt $limit ] || die "$what did not happen in time"
    sleep 0.$((waited < 24 ? 1 + waited / 3 : 9))
  done
}

# Prints an image's name without its tag and digest. A registry's port is part of the name.
image_name() { sed -E 's|@.*||; s|:[^/:]*$||' <<<"$1"; } # image

# Applies deploy/install.yaml with OPERATOR_IMAGE and waits until the operator is ready.
install_ringmaster() {
  sed "s|image: .*/ringmaster-operator:.*|image: $OPERATOR_IMAGE|;
      s|--tools-image=.*|--tools-image=$TOOLS_IMAGE|; s|--worker-image=.*|--worker-image=$WORKER_IMAGE|; s|--own-images=.*|--own-images=$(image_name "$WORKER_IMAGE")|" \
    "$repository/deploy/install.yaml" |
    kubectl apply -f - >/dev/null || return
  kubectl -n ringmaster-system rollout status deployment/ringmaster-operator --timeout=$((120 * patience))s >/dev/null && return
  kubectl -n ringmaster-system describe pods >&2
  kubectl -n ringmaster-system logs deployment/ringmaster-operator --tail=50 >&2
  return 1
}

# Installs or upgrades Ringmaster with the chart; needs helm in PATH (deploy/local/build.sh helm).
install_chart() { # helm's arguments...
  restricted_namespace ringmaster-system || return
  helm upgrade --install ringmaster "$repository/charts/ringmaster" --namespace ringmaster-system --wait \
    --timeout=$((120 * patience))s --set "image.registry=localhost,workerImage.tag=$version-debian13" "$@" >/dev/null && return
  kubectl -n ringmaster-system describe pods >&2
  kubectl -n ringmaster-system logs deployment/ringmaster-operator --tail=50 >&2
  return 1
}

# Creates a namespace that enforces Pod Security `restricted`.
restricted_namespace() { # name
  kubectl create namespace "$1" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  kubectl label --overwrite namespace "$1" pod-security.kubernetes.io/enforce=restricted >/dev/null
}

# Creates a ConfigMap with scikit-learn's 1,797 handwritten digits of 8×8 pixels as IDX files (binaryData, about 115 kB), split into
# training and test set by writer.
digits_config_map() { # kubeconfig namespace
  local data=$RINGMASTER_CACHE/digits/idx
  python3 "$repository/tests/data/digits_to_idx.py" "$data" || return
  kubectl --kubeconfig "$1" -n "$2" create configmap digits-idx --from-file="$data" --dry-run=client -o yaml |
    kubectl --kubeconfig "$1" -n "$2" apply -f - >/dev/null
}
