#!/bin/bash
# Records which of Debian's packages are inside an image that starts from scratch, as dpkg describes them, one file a package: those
# of the shared libraries in ROOT, and those whose headers were compiled in (static libraries come with them). Scanners read the
# folder var/lib/dpkg/status.d, and the release's SBOM is made from it. Usage: record-packages.sh BUILD ROOT, after ninja in BUILD.
set -euo pipefail
build=$1 root=$2 folder=$2/var/lib/dpkg/status.d
mkdir -p "$folder"

{
  # dpkg knows a library below /lib or below /usr/lib, and the root has it at one of the two.
  find "$root" -type f -name '*.so*' -printf '*/%f\n'
  ninja -C "$build" -t deps | sed -n 's|^ *\(/usr/.*\)|\1|p' | xargs -r -d '\n' realpath | sort -u
} | xargs -r -d '\n' dpkg-query --search 2>/dev/null | sed -n 's|^\([^ ,]*\): /.*|\1|p' | sort -u | while read -r package; do
  dpkg-query --status "$package" | sed '/^Conffiles:/,/^[^ C]/{/^Conffiles:\|^ /d}' >"$folder/${package%%:*}"
done
compgen -G "$folder/libc6*" >/dev/null || { echo "record-packages.sh: the C library was not found, so others are missing, too" >&2 && exit 1; }
