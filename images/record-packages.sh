#!/bin/bash
# Records the Debian packages in an image that starts from scratch: those of the shared libraries in ROOT, and those whose headers
# were compiled in (they include the static libraries). Each package has one file, with dpkg's description, in var/lib/dpkg/status.d,
# which scanners read and the release's SBOM is made from. Usage: record-packages.sh BUILD ROOT, after ninja in BUILD.
set -euo pipefail
build=$1 root=$2 folder=$2/var/lib/dpkg/status.d
mkdir -p "$folder"

{
  # dpkg may list a library under /lib and the root have it under /usr/lib, or the reverse: look it up by name.
  find "$root" -type f -name '*.so*' -printf '*/%f\n'
  ninja -C "$build" -t deps | sed -n 's|^ *\(/usr/.*\)|\1|p' | xargs -r -d '\n' realpath | sort -u
} | xargs -r -d '\n' dpkg-query --search 2>/dev/null | sed -n 's|^\([^ ,]*\): /.*|\1|p' | sort -u | while read -r package; do
  dpkg-query --status "$package" | sed '/^Conffiles:/,/^[^ C]/{/^Conffiles:\|^ /d}' >"$folder/${package%%:*}"
done
compgen -G "$folder/libc6*" >/dev/null || { echo "record-packages.sh: the C library was not found, so others are missing, too" >&2 && exit 1; }
