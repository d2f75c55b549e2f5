#!/bin/bash
# Installs the packages that compile the worker's programs. Run by worker.Dockerfile in its build stage.
set -euo pipefail
here=$(dirname "$0")
. "$here/packages.sh"

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${build_packages[@]}"
apt-get clean
rm -rf /var/lib/apt/lists/*
