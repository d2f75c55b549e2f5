#!/bin/bash
# Installs what compiles ringmaster-tools. Run by tools.Dockerfile in the stage that is thrown away.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends g++ cmake ninja-build ccache lld libssl-dev libboost-dev libspdlog-dev libfmt-dev \
  libcli11-dev nlohmann-json3-dev
apt-get clean
rm -rf /var/lib/apt/lists/*
