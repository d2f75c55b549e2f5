#!/bin/bash
# Installs the packages that compile the operator. Run by operator.Dockerfile in its build stage.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends g++ cmake ninja-build ccache lld libcpprest-dev libssl-dev libboost-dev \
  libyaml-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev prometheus-cpp-dev
apt-get clean
rm -rf /var/lib/apt/lists/*
