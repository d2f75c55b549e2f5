#!/bin/bash
# Builds Ringmaster's images from Debian root file systems and keeps them as OCI archives in the cache.
#
#   images/build.sh [operator|tools|worker-debian13|worker-debian12|tools-arm64]...   (default: all but the last, which is cross-compiled)
#   images/build.sh --archives [IMAGE]...                           prints the paths of the archives
#   images/build.sh --sizes                                         prints what a registry would store, as one JSON line
#
# The same Dockerfiles work with `docker build`; this script adds base images made by mmdebstrap, a compiler cache, and writes an
# archive only when its image has changed. It takes seconds for an unchanged tree, and one compilation for a changed source file.
# Needs root and deploy/local/prerequisites.sh images. $RINGMASTER_CACHE is the folder of the cache, $RINGMASTER_IMAGE_COMPRESSION
# (zstd or gzip) the compression of layers.
set -euo pipefail

tree=$(cd "$(dirname "$0")/.." && pwd)
archives=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/images
cache=$archives/build
compression=${RINGMASTER_IMAGE_COMPRESSION:-zstd}
version=$(sed -n 's/^project(ringmaster VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")
all=(operator tools worker-debian13 worker-debian12)
# The time of every file in a layer, so that equal content gives equal bits. It never changes, so that layers stay the same.
layer_time=1767225600
targets=("${all[@]}")

step() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
fail() { printf 'images/build.sh: %s\n' "$*" >&2 && exit 1; }

archive_of() { echo "$archives/$1.oci.tar"; }

name_of() {
  case $1 in
    operator | tools) echo "localhost/ringmaster-$1:$version" ;;
    tools-arm64) echo "localhost/ringmaster-tools:$version-arm64" ;;
    worker-debian1[23]) echo "localhost/ringmaster-worker:$version-${1#worker-}" ;;
  esac
}

existing_archive() {
  [ -f "$(archive_of "$1")" ] || fail "$(archive_of "$1") is missing; run images/build.sh $1"
  archive_of "$1"
}

# compressed_bytes TARGET: prints the sum of the layers' sizes in the archive, which a registry stores and a node pulls.
compressed_bytes() {
  local archive manifest
  archive=$(existing_archive "$1")
  manifest=$(tar -xOf "$archive" index.json | jq -r '.manifests[0].digest | sub(":"; "/")')
  tar -xOf "$archive" "blobs/$manifest" | jq '[.layers[].size] | add'
}

print_sizes() {
  local operator tools worker
  operator=$(compressed_bytes operator)
  tools=$(compressed_bytes tools)
  worker=$(compressed_bytes worker-debian13)
  printf '{"operator_bytes":%s,"tools_bytes":%s,"worker_bytes":%s}\n' "$operator" "$tools" "$worker"
}

# Sets up buildah with its own storage. `chroot` isolation needs no kernel feature; overlay avoids copying every layer.
setup_buildah() {
  export BUILDAH_ISOLATION=chroot TMPDIR=$cache/tmp
  mkdir -p "$TMPDIR" "$cache/log"
  [ -f "$cache/driver" ] || probe_driver >"$cache/driver"
  buildah=(buildah --root "$cache/storage" --runroot "$cache/run" --storage-driver "$(cat "$cache/driver")")
}

probe_driver() {
  local probe=$cache/tmp/probe
  mkdir -p "$probe"/{lower,upper,work,merged}
  if mount -t overlay overlay -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" "$probe/merged" 2>/dev/null; then
    umount "$probe/merged" && echo overlay
  else
    echo vfs
  fi
  rm -rf "$probe"
}

# Removes the container that a failed step left, and unmounts the storage, which mounts its own directory.
leave() {
  local status=$?
  "${buildah[@]}" rm --all >/dev/null 2>&1 || true
  umount "$cache/storage/overlay" 2>/dev/null || true
  exit $status
}

# run_logged LOG COMMAND...: shows the steps of the output, and the rest only if the command fails.
run_logged() {
  local log=$cache/log/$1.log
  shift
  if ! "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
    case $line in STEP\ * | \[*\]\ STEP\ *) step "  ${line#*STEP }" ;; esac
  done; then
    tail -n 40 "$log" >&2
    fail "failed; the whole output is in $log"
  fi
}

# base_image NUMBER SUITE: makes an image of a minimal Debian, from the mirror that this machine's apt uses.
base_image() {
  local key image directory
  key=$( (echo "$2" && cat "$tree/images/base-root.sh") | sha256sum | cut -c1-12)
  image=localhost/ringmaster-base:debian$1-$key
  if ! "${buildah[@]}" inspect --type image "$image" >/dev/null 2>&1; then
    step "base root file system of Debian $1 ($2)"
    directory=$(mktemp -d)
    SOURCE_DATE_EPOCH=$layer_time run_logged "base-debian$1" "$tree/images/base-root.sh" "$2" "$directory/root.tar"
    printf 'FROM scratch\nADD root.tar /\nCMD ["/bin/sh"]\n' >"$directory/Dockerfile"
    "${buildah[@]}" build-using-dockerfile --quiet --timestamp "$layer_time" --tag "$image" "$directory" >/dev/null
    rm -rf "$directory"
  fi
  base=$image
}

build() { # TARGET
  local target=$1 name archive id platform wheels=()
  platform=linux/$(dpkg --print-architecture)
  name=$(name_of "$target")
  archive=$(archive_of "$target")
  case $target in
    worker-debian13) base_image 13 trixie ;;
    *) base_image 12 bookworm ;;
  esac
  [ "$target" != tools-arm64 ] || platform=linux/arm64
  case $target in worker-*) wheels=(--build-context "wheels=$("$tree/deploy/local/libtorch.sh")") ;; esac
  step "$name"
  run_logged "$target" "${buildah[@]}" build-using-dockerfile --layers --timestamp "$layer_time" --format oci --tag "$name" \
    --file "$tree/images/${target%-*}.Dockerfile" \
    --platform "$platform" --build-arg "BUILDPLATFORM=linux/$(dpkg --print-architecture)" --build-arg "TARGETARCH=${platform#*/}" \
    --build-arg "BASE_IMAGE=$base" "${wheels[@]}" "$tree"
  id=$("${buildah[@]}" inspect --type image --format '{{.FromImageID}}' "$name")
  if [ ! -f "$archive" ] || [ "$(cat "$archive.id" 2>/dev/null)" != "$id-$compression" ]; then
    step "  writing $archive"
    rm -f "$archive.id" "$archive.new"
    "${buildah[@]}" push --quiet --compression-format "$compression" "$name" "oci-archive:$archive.new:$name"
    mv "$archive.new" "$archive"
    echo "$id-$compression" >"$archive.id"
  fi
}

mode=build
case ${1:-} in
  --sizes)
    print_sizes
    exit
    ;;
  --archives) mode=archives && shift ;;
esac
[ $# -eq 0 ] || targets=("$@")
for target in "${targets[@]}"; do
  [ -n "$(name_of "$target")" ] || fail "there is no image '$target'; there are ${all[*]} tools-arm64"
  [ $mode = build ] || existing_archive "$target"
done
[ $mode = build ] || exit 0
[ "$(id -u)" = 0 ] || fail "buildah and mmdebstrap run as root here; use sudo"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock --nonblock 9 || { step "waiting for another images/build.sh" && flock 9; }
setup_buildah
trap leave EXIT
for target in "${targets[@]}"; do build "$target"; done

# Print the existing images, to load into a cluster: name, archive, and an id that changes with the content.
for target in "${all[@]}"; do
  archive=$(archive_of "$target")
  [ ! -f "$archive.id" ] || echo "$(name_of "$target") $archive $(cat "$archive.id")"
done >"$archives/images.txt"

step "images (compressed):"
for target in "${targets[@]}"; do
  printf '  %-44s %4d MB  %s\n' "$(name_of "$target")" $(($(compressed_bytes "$target") / 1000000)) "$(archive_of "$target")"
done
