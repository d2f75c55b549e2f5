#!/usr/bin/env bash
# Runs a command with PyTorch from PyPI in PYTHONPATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pytorch=$("$here/../../deploy/local/pytorch.sh")
export PYTHONPATH=$pytorch:$PYTHONPATH
exec "$@"
