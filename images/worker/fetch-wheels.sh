#!/bin/bash
# Unpacks wheels into FOLDER, each by its SHA-256 and no others: fetch-wheels.sh FOLDER REQUIREMENTS...
# They are those for Python 3.11 and a C library of 2.28, whatever runs here: libraries and headers do not depend on it, and
# so are the same on every machine and in every image.
set -euo pipefail
folder=$1
shift
files=()
for file in "$@"; do files+=(-r "$file"); done
platforms=(--platform manylinux2014_x86_64) # pip knows that it includes what is older, of the names below it does not
for minor in {17..28}; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
exec python3 -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --target "$folder" --no-deps --require-hashes \
  --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 "${platforms[@]}" "${files[@]}"
