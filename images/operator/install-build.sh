#!/bin/bash
# Installs what compiles the operator. Run by operator.Dockerfile in the stage that is thrown away.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends g++ cmake ninja-build ccache lld libcpprest-dev libssl-dev libboost-dev \
  libyaml-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev prometheus-cpp-dev
apt-get clean
rm -rf /var/lib/apt/lists/*
