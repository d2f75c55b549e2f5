#!/usr/bin/env bash
# Builds the programs of the local cluster, helm, oras, a registry and Prometheus from Go modules, once, into a cache outside the tree.
# Returns at once if all programs are present. If two builds run at the same time, one waits for the other.
#
#   build.sh [GROUP...]     groups: kubernetes etcd coredns kwok helm oras registry prometheus containerd (default: the first two)
#   build.sh --print        prints the cache folder of this version (programs in bin/; containerd/ has a containerd newer than the system's)
#
# RINGMASTER_CACHE (default ~/.cache/ringmaster) is the cache. With an empty cache, on 2 cores, Kubernetes takes about 5
# minutes, helm 1 minute, containerd 2 minutes, and Prometheus with promtool 3 minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$here/tools
kubernetes_version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" {print $3} $1 == "k8s.io/kubernetes" {print $2}' "$tools/kubernetes/go.mod")
helm_version=$(awk '$2 == "helm.sh/helm/v4" {print $3}' "$tools/helm/go.mod")
prometheus_version=$(awk '$2 == "github.com/prometheus/prometheus" {print $3} $1 == "github.com/prometheus/prometheus" {print $2}' "$tools/prometheus/go.mod")
# The cache folder's name does not depend on the versions of the programs in the pruned folders, which the default cluster does
# not use.
hash=$(cd "$tools" && find . \( -path ./helm -o -path ./oras -o -path ./registry -o -path ./prometheus -o -path ./containerd \) -prune -o -type f \( -name go.mod -o -name go.sum -o -name tools.go \) -print | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c -12)
CACHE=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/cluster-$kubernetes_version-$hash

refuse() {
  echo "build.sh: $*" >&2
  exit 1
}

packages() { # group -> prints the packages that the group's tools.go names
  sed -n 's/^\t_ "\(.*\)"$/\1/p' "$tools/$1/tools.go"
}

program() { # package -> prints the name of the package's program
  case $1 in
    go.etcd.io/etcd/server/v3) echo etcd ;;
    *) basename "$1" ;;
  esac
}

# containerd is not put into bin/, where it would take precedence over the system's containerd.
folder_of() { # package
  case $1 in
    github.com/containerd/*) echo "$CACHE/containerd" ;;
    *) echo "$CACHE/bin" ;;
  esac
}

# Prints a hash of a program's sources if the name of the cache folder does not depend on its version: our own program is rebuilt
# when its source changes; helm and the others are rebuilt when their go.mod or go.sum changes.
source_of() { # package
  case $1 in
    github.com/containerd/*) cat "$tools"/containerd/go.* | sha256sum ;;
    helm.sh/*) cat "$tools"/helm/go.* | sha256sum ;;
    oras.land/*) cat "$tools"/oras/go.* | sha256sum ;;
    github.com/distribution/*) cat "$tools"/registry/go.* | sha256sum ;;
    github.com/prometheus/*) cat "$tools"/prometheus/go.* | sha256sum ;;
    localcluster/*) cat "$tools/${1#localcluster/}"/*.go | sha256sum ;;
    *) echo pinned ;;
  esac
}

present() { # package
  local name
  name=$(program "$1")
  [ -x "$(folder_of "$1")/$name" ] && [ "$(cat "$CACHE/source/$name" 2>/dev/null)" = "$(source_of "$1")" ]
}

# Fails if Go is too old. Go 1.21 and newer download the Go version that a go.mod file requires from the module proxy.
check_go() {
  local have need
  command -v go >/dev/null || refuse "no 'go' on this machine: install Go 1.21 or newer to build the local cluster"
  have=$(
    cd /
    GOTOOLCHAIN=local go env GOVERSION 2>/dev/null
  ) || true
  need=$(cat "$tools"/*/go.mod | awk '$1 == "go" {print $2}' | sort -V | tail -n 1)
  [ "$(printf '%s\n' "${have#go}" "$need" | sort -V | head -n 1)" != "$need" ] || return 0
  [ "$(printf '%s\n' "${have#go}" 1.21 | sort -V | head -n 1)" = 1.21 ] ||
    refuse "${have:-this Go} cannot read the go.mod files here, which need Go $need, nor fetch a newer Go by itself: install Go 1.21 or newer"
  echo "build.sh: $have is older than Go $need: letting it fetch that toolchain through the module proxy" >&2
  export GOTOOLCHAIN=auto
}

# Prints the build tags of a package. Prometheus is built without service discovery for clouds, which is most of its code.
tags_of() { # package
  case $1 in
    github.com/prometheus/*) echo remove_all_sd ;;
  esac
}

build() { # group package; each step needs `|| return`, because the caller tests the result
  local name folder ldflags
  name=$(program "$2")
  folder=$(folder_of "$2")
  ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes_version -X k8s.io/client-go/pkg/version.gitVersion=$kubernetes_version"
  ldflags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$kubernetes_version")"
  ldflags+=" -X helm.sh/helm/v4/internal/version.version=$helm_version"
  ldflags+=" -X github.com/prometheus/common/version.Version=$prometheus_version"
  # The debug information is not needed, and compiling without it takes an eighth less time.
  (cd "$tools/$1" && CGO_ENABLED=0 go build -mod=readonly -trimpath -gcflags=all=-dwarf=false -tags="$(tags_of "$2")" -ldflags="$ldflags" -o "$folder/.$name.$$" "$2") || return
  mv "$folder/.$name.$$" "$folder/$name" || return
  source_of "$2" >"$CACHE/source/$name"
}

# Copies the files in kwok's module that define how simulated nodes and Pods behave, so that the cluster runs without Go.
copy_stages() {
  local from
  from=$(cd "$tools/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  cat "$from"/node/fast/node-*.yaml "$from"/node/heartbeat-with-lease/node-*.yaml "$from"/pod/fast/pod-*.yaml |
    awk 'FNR == 1 || /^apiVersion:/ {print "---"} {print}' >"$CACHE/.stages.$$"
  mv "$CACHE/.stages.$$" "$CACHE/kwok-stages.yaml"
}

if [ "${1:-}" = --print ]; then
  echo "$CACHE"
  exit
fi
groups=("$@")
[ $# -gt 0 ] || groups=(kubernetes etcd)
missing=()
for group in "${groups[@]}"; do
  [ -d "$tools/$group" ] || refuse "no group '$group'; there are: $(cd "$tools" && echo *)"
  for package in $(packages "$group"); do
    present "$package" || missing+=("$group $package")
  done
  [ "$group" != kwok ] || [ -e "$CACHE/kwok-stages.yaml" ] || missing+=("$group stages")
done
[ ${#missing[@]} -gt 0 ] || exit 0

check_go
mkdir -p "$CACHE/bin" "$CACHE/containerd" "$CACHE/source"
exec 9>"$CACHE/.lock"
if ! flock -n 9; then
  echo "build.sh: another build is running; waiting for it" >&2
  flock 9
fi
rm -f "$CACHE"/{bin,containerd}/.*.[0-9]*
for i in "${!missing[@]}"; do
  read -r group package <<<"${missing[i]}"
  if [ "$package" = stages ]; then
    copy_stages
    continue
  fi
  ! present "$package" || continue
  printf 'building %s (%d of %d, %d min %02d s so far)\n' "$(program "$package")" $((i + 1)) ${#missing[@]} \
    $((SECONDS / 60)) $((SECONDS % 60)) >&2
  build "$group" "$package" || refuse "while building $(program "$package"): see the lines above; a network failure is worth a second try"
done
printf 'local cluster programs ready in %s after %d min %02d s\n' "$CACHE/bin" $((SECONDS / 60)) $((SECONDS % 60)) >&2
