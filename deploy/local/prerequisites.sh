#!/usr/bin/env bash
# Installs the Debian packages that Ringmaster's build, tests and local cluster need; does nothing if they are installed.
# Usage: prerequisites.sh [build|cluster|images]...   (default: all three)
set -euo pipefail

build=(
  g++ cmake ninja-build ccache lld clang clang-format clang-tidy libclang-rt-14-dev python3 python3-pip python3-yaml
  libcpprest-dev nlohmann-json3-dev libyaml-cpp-dev libssl-dev zlib1g-dev libboost-dev libspdlog-dev libcli11-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev
  libopenmpi-dev openmpi-bin openssh-server openssh-client
)
cluster=(containerd runc containernetworking-plugins iptables nftables iproute2 conntrack openssl curl jq pigz shellcheck pyflakes3)
images=(buildah mmdebstrap debian-archive-keyring uidmap zstd busybox-static musl)

packages=()
for group in "${@:-build cluster images}"; do
  for name in $group; do
    declare -n list=$name
    packages+=("${list[@]}")
  done
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -x installed >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${missing[@]}"
