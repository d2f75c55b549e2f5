#!/bin/bash
# Downloads the wheels that the REQUIREMENTS files list and unpacks them into FOLDER: fetch-wheels.sh FOLDER REQUIREMENTS...
# pip checks each SHA-256 and installs nothing else. The wheels are always those for Python 3.11 and glibc 2.28, so libraries and
# headers are the same on every machine and in every image, whatever its Python and glibc.
set -euo pipefail
folder=$1
shift
files=()
for file in "$@"; do files+=(-r "$file"); done
platforms=(--platform manylinux2014_x86_64) # pip adds older platforms to this one itself, but not to those below
for minor in {17..28}; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
exec python3 -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --target "$folder" --no-deps --require-hashes \
  --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 "${platforms[@]}" "${files[@]}"
