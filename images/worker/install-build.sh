#!/bin/bash
# Installs what compiles the worker's programs. Run by worker.Dockerfile in the stage that is thrown away.
set -euo pipefail
here=$(dirname "$0")
. "$here/packages.sh"

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${build_packages[@]}"
apt-get clean
rm -rf /var/lib/apt/lists/*
