#!/usr/bin/env bash
# Builds the trainer with CUDA on a machine that has PyTorch, nvcc, CMake and a C++20 compiler, but neither a network
# nor our Debian packages.
#
#   deploy/gpu-box.sh collect FOLDER   on a Debian machine: puts what the trainer includes and links, about 30 MB, there
#   deploy/gpu-box.sh build FOLDER     on the other one, in the same tree: configures, builds and runs the GPU tests
#
# RINGMASTER_GLOO=OFF (for build) leaves Gloo out: ranks on GPUs, and single ones on the CPU. RINGMASTER_BUILD (default
# build/gpu-box) is the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# Whole folders of /usr/include; of Boost, which is too large, only what our sources reach.
headers=(nlohmann CLI spdlog fmt gtest gmock openssl x86_64-linux-gnu/openssl zlib.h zconf.h
  x86_64-linux-gnu/zconf.h)
libraries=(libspdlog libfmt libssl libcrypto libz libgtest libgtest_main libgmock libgmock_main)
cmake_packages=(lib/x86_64-linux-gnu/cmake/{spdlog,fmt,GTest,Boost-1.74.0,boost_headers-1.74.0}
  share/cmake/{CLI11,nlohmann_json})

boost_headers() {
  local source
  for source in common/control/*.cc worker/trainer/{*,*/*}/*.cc tests/unit/trainer/fake_launcher.h; do
    # A source that includes LibTorch cannot be followed here, and reaches no more of Boost than the others.
    g++ -std=c++20 -M -I. "$source" 2>/dev/null || true
  done | tr ' ' '\n' | sed -n 's#^/\(usr/include/boost/.*\)#\1#p' | sort -u
}

collect() { # folder
  local folder=$1 item name
  [ ! -e "$folder" ] || { echo "gpu-box.sh: $folder exists; remove it first" >&2; exit 2; }
  mkdir -p "$folder/usr/lib/x86_64-linux-gnu"
  {
    for item in "${headers[@]}"; do
      [ ! -e "/usr/include/$item" ] || echo "usr/include/$item"
    done
    for item in "${cmake_packages[@]}"; do echo "usr/$item"; done
    boost_headers
  } | tar -C / -cf - -T - | tar -C "$folder" -xf -
  for name in "${libraries[@]}"; do
    for item in {/usr/lib/x86_64-linux-gnu,/usr/lib}/"$name".{so*,a}; do
      case $item in *'*'* | */libssl.a | */libcrypto.a | */libz.a | */libfmt.a) continue ;; esac
      [ ! -e "$item" ] || cp -L "$item" "$folder/usr/lib/x86_64-linux-gnu/"
    done
  done
  echo "$folder: $(du -sm "$folder" | cut -f1) MB; on the machine with the GPU: deploy/gpu-box.sh build $folder"
}

build() { # folder
  local folder build_folder=${RINGMASTER_BUILD:-build/gpu-box} torch
  folder=$(realpath "$1")
  torch=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))') || {
    echo "gpu-box.sh: python3 here has no PyTorch, whose LibTorch the trainer needs" >&2
    exit 1
  }
  cmake -S . -B "$build_folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRINGMASTER_CUDA=ON -DRINGMASTER_OPERATOR=OFF \
    -DRINGMASTER_TRAINER_ONLY=ON -DRINGMASTER_TESTS=ON -DRINGMASTER_GLOO="${RINGMASTER_GLOO:-ON}" \
    -DCMAKE_UNITY_BUILD=ON -DRINGMASTER_CARRIED="$folder" -DRINGMASTER_LIBTORCH="$torch"
  cmake --build "$build_folder" --target gpu_trainer
  LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu \
    ctest --test-dir "$build_folder" --output-on-failure -R '^(trainer_|gpu_)'
}

case ${1:-} in
  collect | build) [ $# -eq 2 ] || { echo "usage: gpu-box.sh $1 FOLDER" >&2; exit 2; }; "$1" "$2" ;;
  *) echo "usage: gpu-box.sh collect|build FOLDER" >&2; exit 2 ;;
esac
