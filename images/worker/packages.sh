# shellcheck shell=bash disable=SC2034 # the sourcing scripts use them
# The names of the packages that the worker needs, for each distribution; sourced by the install scripts of this folder.
# Sets run_packages and build_packages for the distribution of the root file system that this runs in.
. /etc/os-release

run_packages=(openssh-server openssh-client openmpi-bin libnss-extrausers)
build_packages=(g++ cmake ninja-build ccache lld libssl-dev libboost-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
  zlib1g-dev libopenmpi-dev)

case $ID-$VERSION_ID in
  debian-13) run_packages+=(libspdlog1.15 libssl3t64) ;;
  debian-12) run_packages+=(libspdlog1.10 libssl3) ;;
  ubuntu-24.04) run_packages+=(libspdlog1.12 libssl3t64) ;;
  *)
    echo "no package list for $ID $VERSION_ID: add one to images/worker/packages.sh" >&2
    exit 1
    ;;
esac
