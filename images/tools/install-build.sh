#!/bin/bash
# Installs the packages that compile ringmaster-tools for $TARGETARCH. Run by tools.Dockerfile in its build stage.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
target=${TARGETARCH:-$(dpkg --print-architecture)}
compiler=g++
if [ "$target" != "$(dpkg --print-architecture)" ]; then
  dpkg --add-architecture "$target"
  compiler=crossbuild-essential-$target
fi
apt-get update -q
apt-get install -y -q --no-install-recommends g++ "$compiler" cmake ninja-build ccache lld libcli11-dev nlohmann-json3-dev \
  "libssl-dev:$target" "libboost-dev:$target" "libspdlog-dev:$target" "libfmt-dev:$target"
apt-get clean
rm -rf /var/lib/apt/lists/*
