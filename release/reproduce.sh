#!/usr/bin/env bash
# Builds images twice, each time with a new Debian root, an empty compiler cache and new layers, and compares the results.
# Usage: reproduce.sh [IMAGE...], images of images/build.sh that start from scratch (default: all of them).
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
cache=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}
images=("$@")
[ $# -gt 0 ] || images=(operator tools tools-arm64)
work=$(mktemp -d "$cache/reproduce.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

for time in first second; do
  mkdir "$work/$time"
  # Both builds use the same LibTorch, which is pinned by SHA-256.
  find "$cache" -maxdepth 1 -name 'libtorch-*' -exec ln -s -t "$work/$time" {} +
  RINGMASTER_CACHE=$work/$time "$tree/images/build.sh" "${images[@]}"
done
for image in "${images[@]}"; do
  digests=()
  for time in first second; do digests+=("$(tar -xOf "$work/$time/images/$image.oci.tar" index.json | jq -r '.manifests[0].digest')"); done
  [ "${digests[0]}" = "${digests[1]}" ] || { echo "reproduce.sh: $image is ${digests[0]} the first time and ${digests[1]} the second" >&2 && exit 1; }
  echo "$image is ${digests[0]} both times"
done
