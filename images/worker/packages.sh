# shellcheck shell=bash disable=SC2034 # the sourcing scripts use them
# The distributions' own names of what the worker needs; sourced by the install scripts of this folder.
# Sets run_packages and build_packages for the root file system that this runs in.
. /etc/os-release

run_packages=(openssh-server openssh-client openmpi-bin libnss-extrausers libprometheus-cpp-core1.0 libgloo0)
build_packages=(g++ cmake ninja-build ccache lld libssl-dev libboost-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
  prometheus-cpp-dev zlib1g-dev libgloo-dev libopenmpi-dev)

# Debian's LibTorch multiplies matrices with whatever provides libblas.so.3: the reference BLAS, ten times slower, unless
# there is another. Of OpenBLAS's variants, the one that takes its threads from OpenMP, as LibTorch does: the one with
# threads of its own lets every rank use every core.
case $ID-$VERSION_ID in
  debian-13)
    run_packages+=(libspdlog1.15 libssl3t64 libtorch2.6 libopenblas0-openmp)
    build_packages+=(libtorch-dev)
    ;;
  debian-12)
    run_packages+=(libspdlog1.10 libssl3 libtorch1.13 libopenblas0-openmp)
    build_packages+=(libtorch-dev)
    ;;
  ubuntu-24.04) # LibTorch comes from PyTorch's wheel: install-torch.sh
    run_packages+=(libspdlog1.12 libssl3t64 libgomp1)
    build_packages+=(python3-pip)
    ;;
  *)
    echo "no package list for $ID $VERSION_ID: add one to images/worker/packages.sh" >&2
    exit 1
    ;;
esac
