#!/usr/bin/env bash
# Runs a command with PyTorch, and the PyPI packages that RINGMASTER_TEST_PACKAGES names (deploy/local/pypi.sh), in PYTHONPATH.
# RINGMASTER_TEST_PYTORCH=torch2.2 or torch2.6 is an older PyTorch, whose wheels are for Python 3.11; otherwise it is the newest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
local=$here/../../deploy/local
if [ -z "${RINGMASTER_TEST_PYTORCH:-}" ]; then
  pytorch=$("$local/pytorch.sh")
elif python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  pytorch=$("$local/pypi.sh" "$RINGMASTER_TEST_PYTORCH")
else
  echo "skipped: the tests have the wheels of $RINGMASTER_TEST_PYTORCH for Python 3.11 only"
  exit 77
fi
PYTHONPATH=$pytorch:$PYTHONPATH
for package in ${RINGMASTER_TEST_PACKAGES:-}; do
  folder=$("$local/pypi.sh" "$package")
  PYTHONPATH=$PYTHONPATH:$folder
done
export PYTHONPATH
exec "$@"
