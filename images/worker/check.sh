#!/bin/bash
# The last step of worker.Dockerfile checks the finished image: each of our programs finds its libraries and starts; there is one
# CUDA and one NCCL; the variables for NVIDIA's container runtime are set; and the licences that must be shipped are there.
set -euo pipefail
status=0
libraries=/opt/torch/lib documents=/usr/share/doc
cuda=
[ ! -e $libraries/libtorch_cuda.so ] || cuda=yes # this is an image for GPUs

complain() { echo "check.sh: $*" >&2 && status=1; }

check_licences() {
  local licence wanted=(libtorch/torch-*/LICENSE libtorch/nvidia_cuda_{runtime,cupti}-*/License.txt libtorch/mkl.txt gloo/LICENSE)
  [ -z "$cuda" ] || wanted+=(libtorch/nvidia_nccl_*/License.txt libtorch/cusparselt/LICENSE.txt)
  for licence in "${wanted[@]}"; do
    compgen -G "$documents/$licence" >/dev/null || complain "$documents/$licence is missing from the image"
  done
}

missing_of() { ldd "$1" | sed -n 's/ => not found//p' | tr -d '\t' | tr '\n' ' '; }

check_program() { # name
  local program=/usr/local/bin/$1 missing result=0
  [ -x "$program" ] || { complain "$program is missing from the image" && return; }
  missing=$(missing_of "$program")
  if [ -n "$missing" ]; then
    complain "$program does not find ${missing}; name its package in packages.sh, its file in slim.sh" && return
  fi
  # Some programs reject --version. A program that cannot be loaded ends with 126, 127 or a signal.
  LD_BIND_NOW=1 "$program" --version || result=$?
  [ $result -lt 126 ] || complain "$program does not start (exit code $result)"
}

check_package() {
  local folder
  for folder in /usr/local/lib/ringmaster/python /usr/lib/python3/dist-packages; do
    [ -s $folder/ringmaster/__init__.py ] || complain "$folder has no package ringmaster"
  done
}

# A process might load a second copy of a CUDA library instead of the one in PyTorch's wheel; a libcuda hides the node's driver.
check_one_cuda() {
  local file found others=() single=(libcudart.so)
  for file in libcuda libcudart libcublas libcudnn libcupti libnccl libnvrtc; do others+=(-o -name "$file.so*"); done
  found=$(find / \( -path /proc -o -path /sys -o -path /dev -o -path $libraries \) -prune -o \( "${others[@]:1}" \) -print | tr '\n' ' ')
  [ -z "$found" ] || complain "${found}is a second CUDA beside $libraries: take a -base image, of which install-runtime.sh removes it"
  [ -z "$cuda" ] || single+=(libnccl.so)
  for file in "${single[@]}"; do
    [ "$(find $libraries -name "$file*" | wc -l)" = 1 ] || complain "$libraries has not one $file"
  done
}

# The loader's cache must list the libraries, for programs that look them up by name only.
check_loader() {
  local library cache expected=(libtorch_cpu.so libcudart.so.13)
  [ -z "$cuda" ] || expected+=(libnccl.so.2 libtorch_cuda.so)
  cache=$(ldconfig -p)
  for library in "${expected[@]}"; do
    grep -F "$library " <<<"$cache" | grep -F " => $libraries/$library" >/dev/null || complain "ldconfig -p has no $libraries/$library"
  done
  case ":${LD_LIBRARY_PATH:-}:" in
    *cuda*) complain "LD_LIBRARY_PATH=$LD_LIBRARY_PATH names another CUDA, which goes before $libraries" ;;
  esac
}

# The training programs must be linked with LibTorch's CUDA part, though they use no symbol of it, and find all that it loads.
check_gpu_side() {
  local program library missing report
  [ -n "$cuda" ] || return 0
  for program in /usr/local/bin/ringmaster-{train,bench}; do
    ldd "$program" | grep -F "libtorch_cuda.so => $libraries/" >/dev/null ||
      complain "$program is not linked with $libraries/libtorch_cuda.so: was there an nvcc in /opt/cuda, and --no-as-needed?"
  done
  for library in "$libraries"/libtorch_cuda_linalg.so "$libraries"/libcudnn_*.so.*; do # LibTorch loads these by name
    missing=$(missing_of "$library")
    [ -z "$missing" ] || complain "$library does not find $missing"
  done
  report=$(ringmaster-train --check-build) || complain "ringmaster-train --check-build failed"
  for library in CUDA NCCL; do
    grep "\[X\] $library [0-9]" <<<"$report" >/dev/null || complain "ringmaster-train --check-build lists no $library: $report"
  done
}

check_environment() {
  local capability
  for capability in compute utility; do
    case ,${NVIDIA_DRIVER_CAPABILITIES:-}, in
      *,$capability,*) ;;
      *) complain "NVIDIA_DRIVER_CAPABILITIES=${NVIDIA_DRIVER_CAPABILITIES:-} lacks $capability" ;;
    esac
  done
  [ "${NVIDIA_VISIBLE_DEVICES:-}" = void ] ||
    complain "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-}: with anything but void a container that asks for no GPU may get some"
}

check_licences
for program in ringmaster-{agent,attach,launcher,train,audit,bench}; do check_program "$program"; done
check_package
check_one_cuda
check_loader
check_gpu_side
check_environment
exit $status
