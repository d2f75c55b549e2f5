#!/usr/bin/env bash
# Builds the trainer with CUDA on a machine that has a GPU, runs its tests and benchmarks there, and writes a report.
#
#   deploy/gpu-box.sh report [FOLDER]  builds, runs the GPU tests, measures figures, and writes report.json and report.md
#   deploy/gpu-box.sh build [FOLDER]   only builds and runs the GPU tests
#   deploy/gpu-box.sh collect FOLDER   on a Debian machine: copies the headers and libraries that the trainer needs (about 30 MB)
#                                      into FOLDER, for a machine that has PyTorch, nvcc, CMake, Ninja and a C++20 compiler, but
#                                      neither a network nor our Debian packages. Run the other two commands there with FOLDER
#
# Without FOLDER the machine must run Debian 12 or similar; PyTorch and nvcc are downloaded once from PyPI (deploy/local/cuda.sh).
# RINGMASTER_GLOO=OFF (for build) builds without Gloo; a job with several ranks then needs GPUs. RINGMASTER_BUILD (default
# build/gpu-box) is the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# Files and whole folders of /usr/include to copy. Boost is too large to be copied as a whole; boost_headers lists the headers
# of Boost that our sources include.
headers=(nlohmann CLI spdlog fmt gtest gmock openssl x86_64-linux-gnu/openssl zlib.h zconf.h
  x86_64-linux-gnu/zconf.h)
libraries=(libspdlog libfmt libssl libcrypto libz libgtest libgtest_main libgmock libgmock_main)
cmake_packages=(lib/x86_64-linux-gnu/cmake/{spdlog,fmt,GTest,Boost-1.74.0,boost_headers-1.74.0}
  share/cmake/{CLI11,nlohmann_json})

boost_headers() {
  local source
  for source in common/control/*.cc worker/trainer/{*,*/*}/*.cc tests/unit/trainer/fake_launcher.h; do
    # The compiler fails for sources that include LibTorch, which is not in its search path. These sources include only Boost
    # headers that other sources include, too.
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

build_folder=${RINGMASTER_BUILD:-build/gpu-box}
peer=(bench/peers/torchrun/throughput.sh) # trains the same network with PyTorch, for figure B13
carried=() # environment variables for programs that were built with FOLDER; compilers and other programs do not get them

compile() { # [folder]
  local options=() found torch
  if [ $# -eq 1 ]; then
    torch=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))') || {
      echo "gpu-box.sh: python3 has no PyTorch, which provides LibTorch for the trainer" >&2
      exit 1
    }
    options=(-DRINGMASTER_CARRIED="$1" -DRINGMASTER_LIBTORCH="$torch")
  else
    deploy/local/prerequisites.sh build
    found=$(deploy/local/cuda.sh)
    eval "$found"
    options=(-DRINGMASTER_LIBTORCH="$RINGMASTER_LIBTORCH" -DCMAKE_CUDA_COMPILER="$RINGMASTER_NVCC")
  fi
  cmake -S . -B "$build_folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRINGMASTER_CUDA=ON -DRINGMASTER_OPERATOR=OFF \
    -DRINGMASTER_TRAINER_ONLY=ON -DRINGMASTER_TESTS=ON -DRINGMASTER_GLOO="${RINGMASTER_GLOO:-ON}" \
    -DCMAKE_UNITY_BUILD=ON "${options[@]}"
  cmake --build "$build_folder" --target gpu_trainer
}

run_tests() { # ctest's options...
  env "${carried[@]}" ctest --test-dir "$build_folder" --output-on-failure -R '^(trainer_|gpu_)' "$@"
}

build() { # [folder]
  compile "$@"
  run_tests
}

# figure NAME COMMAND...: runs the command and keeps its output and exit code for gpu_report.py
figure() {
  local code=0
  echo "gpu-box.sh: measuring $1"
  timeout 900 env "${carried[@]}" "${@:2}" >"$results/$1.log" 2>&1 || code=$?
  echo "exit $code" >>"$results/$1.log"
  [ $code = 0 ] || tail -n 3 "$results/$1.log"
}

# Trains IResNet-50 as for the figures of docs/gpu.md, with one rank per GPU: rank r chooses GPU r.
train() { # ringmaster-train gpus options...
  local store pids=() rank code=0
  store=$(mktemp -d)
  for ((rank = 0; rank < $2; ++rank)); do
    "$1" --device=cuda --world-size="$2" --rank=$rank --store="$store" --workload=partial-fc --data=synthetic --backbone=r50 \
      --image-side=112 --precision=bf16 --global-batch=$((256 * $2)) --learning-rate=0.01 --momentum=0.9 --steps=200 "${@:3}" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
  rm -rf "$store"
  return $code
}

report() { # [folder]
  local gpus code=0
  results=$build_folder/report
  gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l) || {
    echo "gpu-box.sh: nvidia-smi lists no GPU; create the report on a host with a GPU" >&2
    exit 1
  }
  compile "$@"
  rm -rf "$results"
  mkdir "$results"
  results=$(realpath "$results")
  env "${carried[@]}" "$build_folder/worker/trainer/ringmaster-train" --check-build >"$results/build.txt"
  unset GTEST_BRIEF # the report names each case
  run_tests --output-junit "$results/tests.xml" --test-output-size-passed 1000000 --test-output-size-failed 1000000 || true
  # If the machine has one GPU, two ranks share it, and NCCL_HOSTID makes NCCL treat them as two hosts.
  if [ "$gpus" = 1 ]; then export NCCL_HOSTID=bench NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1; fi
  figure allreduce "$build_folder/worker/bench/ringmaster-bench" allreduce --backend=nccl --ranks=$((gpus == 1 ? 2 : gpus)) \
    -b 1M -e 256M -f 4 --json=-
  unset NCCL_HOSTID NCCL_SOCKET_IFNAME NCCL_IB_DISABLE
  export -f train
  figure training bash -c 'train "$@"' - "$build_folder/worker/trainer/ringmaster-train" "$gpus" --classes=1000
  figure pytorch env -u LD_LIBRARY_PATH "${peer[@]}" --cuda --network=iresnet50 --ranks="$gpus" --global-batch=$((256 * gpus)) --steps=100 \
    --choose --settings=plain,channels-last,compiled-channels-last
  figure partial-fc bash -c 'train "$@"' - "$build_folder/worker/trainer/ringmaster-train" "$gpus" --classes=200000 --sample-rate=0.1
  python3 deploy/gpu_report.py "$results" || code=$?
  echo "gpu-box.sh: $results/report.md is the readable report, report.json is for docs/gpu-reports (docs/gpu-reports.md)"
  return $code
}

case ${1:-}:$# in
  collect:2 | build:[12] | report:[12])
    [ "$1" = collect ] || [ $# = 1 ] || {
      set -- "$1" "$(realpath -e "$2")"
      carried=(LD_LIBRARY_PATH="$2/usr/lib/x86_64-linux-gnu")
      peer=(python3 -B bench/peers/torchrun/throughput.py)
    }
    "$@"
    ;;
  *) echo "usage: gpu-box.sh report|build [FOLDER], or collect FOLDER" >&2; exit 2 ;;
esac
