#!/usr/bin/env bash
# Runs a command with PyTorch, and the PyPI packages that RINGMASTER_TEST_PACKAGES names (deploy/local/pypi.sh), in PYTHONPATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
local=$here/../../deploy/local
pytorch=$("$local/pytorch.sh")
PYTHONPATH=$pytorch:$PYTHONPATH
for package in ${RINGMASTER_TEST_PACKAGES:-}; do
  folder=$("$local/pypi.sh" "$package")
  PYTHONPATH=$PYTHONPATH:$folder
done
export PYTHONPATH
exec "$@"
