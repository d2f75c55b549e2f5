#!/usr/bin/env bash
# Prints the path of the archive of localhost/foreign-python:1: Debian 12 with Python, an image without Ringmaster. The archive is
# made once, in the cache, with packages from the Debian mirror that this machine's apt uses. Needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
images=${RINGMASTER_CACHE:-$HOME/.cache/ringmaster}/images
archive=$images/foreign-python-$(cat "$0" "$here/foreign_image.py" | sha256sum | cut -c1-12).oci.tar
mkdir -p "$images"
exec 9>"$images/foreign-python.lock"
flock 9
if [ ! -e "$archive" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  # shellcheck disable=SC2016 # apt expands these itself
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -1)
  mmdebstrap --mode=root --variant=minbase --include=python3 --dpkgopt='path-exclude=/usr/share/doc/*' \
    bookworm "$work/root" ${mirror:+"$mirror"} >&2
  find "$work/root/dev" -mindepth 1 -delete
  rm -rf "$work/root/var/lib/apt/lists" "$work/root/var/cache"
  "$here/foreign_image.py" localhost/foreign-python:1 "$work/root" "$work/archive"
  mv "$work/archive" "$archive"
fi
echo "$archive"
