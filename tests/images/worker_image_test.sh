#!/usr/bin/env bash
# Tests the steps of images/worker.Dockerfile on root file systems that resemble Ubuntu's and Debian's: runs the image's scripts in a
# chroot, with stand-ins for apt, for PyTorch's wheels and for our programs; the linker and loader are real. Then tests that the image's
# check rejects wrong images. Nothing is downloaded. Needs no root if user namespaces are allowed.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
as_root=()
[ "$(id -u)" = 0 ] || as_root=(unshare --map-root-user)
# shellcheck disable=SC2016,SC2054  # the loader expands it; the commas are the linker's
as_wheels=(-Wl,--disable-new-dtags,-rpath,'$ORIGIN/../../nvidia/nccl/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN')

within() { # root command...
  "${as_root[@]}" env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin chroot "$@"
}

# Link the programs that our scripts call, with their libraries; all roots share them.
mkdir -p "$work/programs"/usr/{bin,sbin,lib,lib64}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$work/programs/$name"; done
needed=(bash env cat cp rm ln mkdir mktemp find sed grep tr wc dirname basename install strip ldd ldconfig getent userdel useradd groupadd)
mapfile -t files < <(PATH=$PATH:/usr/sbin:/sbin type -P "${needed[@]}")
[ ${#files[@]} = ${#needed[@]} ] || fail "this machine lacks some of ${needed[*]}; found only ${files[*]}"
mapfile -t -O ${#files[@]} files < <(ldd "${files[@]}" 2>/dev/null | sed -n 's|^\t[^/]*\(/[^ ]*\) (.*|\1|p' | sort -u)
tar -C / -chf - "${files[@]#/}" | tar -C "$work/programs" --keep-directory-symlink -xf -
ln -s bash "$work/programs/usr/bin/sh"

shape() { # root os-release
  local root=$1
  cp -al "$work/programs" "$root"
  mkdir -p "$root"/{dev,etc/ld.so.conf.d,tmp,usr/{local/bin,share/doc/bash},opt/ringmaster/images,var/{lib/apt/lists,cache,log},run}
  touch "$root/dev/null"
  echo 'include /etc/ld.so.conf.d/*.conf' >"$root/etc/ld.so.conf"
  echo /usr/lib/x86_64-linux-gnu >"$root/etc/ld.so.conf.d/x86_64-linux-gnu.conf"
  printf '%b' "$2" >"$root/etc/os-release"
  printf 'root:x:0:0:root:/root:/bin/sh\nubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:*:1::::::\nubuntu:!:1::::::\n' >"$root/etc/shadow"
  printf 'root:x:0:\nubuntu:x:1000:\n' >"$root/etc/group"
  echo 'USERGROUPS_ENAB yes' >"$root/etc/login.defs"
  printf 'passwd:         files\ngroup:          files\n' >"$root/etc/nsswitch.conf"
  printf '#!/bin/bash\necho "$*" >>/apt.log\n' >"$root/usr/bin/apt-get"
  printf '#!/bin/bash\n' >"$root/usr/bin/dpkg-query"
  chmod +x "$root"/usr/bin/{apt-get,dpkg-query}
}

library() { # file needed-file...
  mkdir -p "$(dirname "$1")"
  echo 'int nothing;' | gcc -shared -x c - -o "$1" "${as_wheels[@]}" -Wl,-soname,"$(basename "$1")" -Wl,--no-as-needed -x none "${@:2}" \
    -Wl,--allow-shlib-undefined
}

wheels() { # folder
  local torch=$1/torch/lib cuda=$1/nvidia/cu13/lib name
  library "$cuda/libcudart.so.13"
  library "$cuda/libcupti.so.13"
  library "$cuda/libcusolver.so.12"
  library "$1/nvidia/nccl/lib/libnccl.so.2"
  library "$1/nvidia/cudnn/lib/libcudnn_ops.so.9"
  library "$torch/libc10.so"
  library "$torch/libgomp.so.1"
  library "$torch/libtorch_python.so"
  library "$torch/libtorch_cpu.so" "$torch/libc10.so" "$cuda"/libcu{dart,pti}.so.13
  library "$torch/libtorch_cuda.so" "$torch/libc10.so" "$cuda/libcudart.so.13" "$1/nvidia/nccl/lib/libnccl.so.2"
  library "$torch/libtorch_cuda_linalg.so" "$cuda/libcusolver.so.12"
  mkdir -p "$1/torch/include" "$1/nvidia/cu13/include" "$1"/{torch-2,nvidia_cuda_runtime-13,nvidia_cuda_cupti-13,nvidia_nccl_cu13-2}.dist-info/licenses
  touch "$1/nvidia/cu13/include/algorithm.sort_heap.h" "$1/torch-2.dist-info/licenses/LICENSE"
  mkdir "$1/nvidia/cusparselt" && touch "$1/nvidia/cusparselt/LICENSE.txt"
  for name in "$1"/nvidia_*; do touch "$name/licenses/License.txt"; done
}

# programs OUT TORCH [LINK...]: links the programs as Ubuntu's compiler does: without libraries of which no symbol is used.
programs() {
  local name
  mkdir -p "$1"
  cat >"$work/program.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  extern int nothing;
  if (argc > 2) return nothing;
  printf("[X] CUDA 13.2\n[%c] NCCL 2.30.7\n", dlopen("libnccl.so.2", RTLD_NOW) ? 'X' : ' ');
}
C
  for name in agent attach launcher train audit bench; do
    gcc "$work/program.c" -o "$1/ringmaster-$name" -Wl,--as-needed "$2/lib/libtorch_cpu.so" "${@:3}" -Wl,--disable-new-dtags,-rpath,/opt/torch/lib \
      -Wl,--allow-shlib-undefined
  done
}
# Read the linker option for libtorch_cuda from worker/trainer/CMakeLists.txt.
link=$(sed -n 's/^ *"\(-Wl,.*libtorch_cuda\.so.*\)"$/\1/p' worker/trainer/CMakeLists.txt)
[ -n "$link" ] || fail "worker/trainer/CMakeLists.txt links no libtorch_cuda"

# last_stage BUILD ROOT: executes the COPY steps of worker.Dockerfile after `FROM runtime`, and sets `run` to the
# command of RUN and `variables` to the variables of ENV.
last_stage() {
  local instruction words from
  variables=() run=
  while read -r instruction words; do
    # shellcheck disable=SC2086,SC2206  # words of the Dockerfile
    case $instruction\ $words in
      COPY\ --from=build*) from=$1 copy $2 ${words#--from=build } ;;
      COPY*) from=$PWD/ copy $2 $words ;;
      ENV*) variables+=($words) ;;
      RUN*) run=$words ;;
    esac
  done < <(sed '1,/^FROM runtime$/d' images/worker.Dockerfile)
}
copy() { # root source target: copies the source, which is relative to $from, into the root
  mkdir -p "$1$3"
  if [ -d "$from$2" ]; then cp -r "$from$2/." "$1$3"; else cp "$from$2" "$1$3"; fi
}

cuda_of_the_base() { # root
  install -D /dev/null "$1/usr/local/cuda-13.0/compat/libcuda.so.1"
  install -D /dev/null "$1/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13"
  echo /usr/local/cuda-13.0/compat >"$1/etc/ld.so.conf.d/000_cuda.conf"
  printf '#!/bin/bash\n[[ $* != *cuda-* ]] || printf "%%s " cuda-cudart-13-0 cuda-compat-13-0\n' >"$1/usr/bin/dpkg-query.new"
  chmod +x "$1/usr/bin/dpkg-query.new" && mv -f "$1/usr/bin/dpkg-query.new" "$1/usr/bin/dpkg-query"
}

make_image() { # name os-release link...: makes an image in $work/NAME
  local build=$work/$1-build root=$work/$1
  shape "$build" "$2"
  cp -r images/worker/. "$build/opt/ringmaster/images"
  cp -r "$work/wheels" "$build/opt/wheels"
  within "$build" bash /opt/ringmaster/images/install-torch.sh
  programs "$build/out" "$build/opt/torch" "${@:3}"
  shape "$root" "$2"
  [ "$1" != ubuntu ] || cuda_of_the_base "$root"
  cp images/worker/{packages,install-runtime}.sh "$root/opt/ringmaster/images"
  printf '#!/bin/bash\n' >"$root/opt/ringmaster/images/slim.sh" # asks dpkg
  within "$root" bash /opt/ringmaster/images/install-runtime.sh >/dev/null
  last_stage "$build" "$root"
}
check() { # name [NAME=value...]: executes the RUN of the last stage in the image
  within "$work/$1" env "${variables[@]}" "${@:2}" bash -c "$run"
}

wheels "$work/wheels"
make_image debian 'ID=debian\nVERSION_ID="13"\n'
(cd "$work/debian/opt/torch/lib" && echo *) | grep -x 'libc10.so libcudart.so.13 libcupti.so.13 libgomp.so.1 libtorch_cpu.so' >/dev/null ||
  fail "unexpected libraries in the CPU image: $(ls "$work/debian/opt/torch/lib")"
said=$(check debian 2>&1) || fail "the check rejected the CPU image: $said"

# shellcheck disable=SC2016  # CMake's variable
make_image ubuntu 'ID=ubuntu\nVERSION_ID="24.04"\n' "${link//'${torch}'/$work/ubuntu-build/opt/torch}"
root=$work/ubuntu
for file in libtorch_cuda.so libnccl.so.2 libcusolver.so.12 libcudnn_ops.so.9; do [ -f "$root/opt/torch/lib/$file" ] || fail "no $file in the GPU image"; done
for file in libtorch_python.so algorithm.sort_heap.h; do [ ! -e "$root/opt/torch/lib/$file" ] || fail "$file is in the GPU image"; done
grep -E '^install .* libspdlog1\.12( |$)' "$root/apt.log" >/dev/null || fail "unexpected apt-get commands: $(cat "$root/apt.log")"
grep -x 'purge -y -q cuda-cudart-13-0 cuda-compat-13-0' "$root/apt.log" >/dev/null || fail "the CUDA packages of the base image were not removed: $(cat "$root/apt.log")"
[ "$(grep :1000: "$root/etc/passwd")" = 'ringmaster:x:1000:1000::/tmp:/bin/sh' ] || fail "unexpected passwd entry: $(grep :1000: "$root/etc/passwd")"
grep '^passwd: .* extrausers$' "$root/etc/nsswitch.conf" >/dev/null || fail "unexpected nsswitch.conf: $(cat "$root/etc/nsswitch.conf")"
said=$(check ubuntu 2>&1) || fail "the check rejected the GPU image: $said"

refused() { # text [NAME=value...]: the check of the GPU image must fail with the text; the image is restored afterwards
  ! said=$(check wrong "${@:2}" 2>&1) || fail "expected the check to reject an image with '$1', but it passed"
  grep -F -- "$1" <<<"$said" >/dev/null || fail "expected '$1' from the check, got: $said"
  whole
}
whole() { rm -rf "$work/wrong" && cp -al "$root" "$work/wrong"; }
whole
wrong=$work/wrong
refused 'NVIDIA_DRIVER_CAPABILITIES=compute lacks utility' NVIDIA_DRIVER_CAPABILITIES=compute
refused 'NVIDIA_VISIBLE_DEVICES=all:' NVIDIA_VISIBLE_DEVICES=all
refused 'LD_LIBRARY_PATH=/usr/local/cuda/lib64 names another CUDA' LD_LIBRARY_PATH=/usr/local/cuda/lib64
for file in usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3 usr/local/cuda-13.0/lib64/libcudart.so.13 usr/local/cuda-13.0/compat/libcuda.so.1; do
  install -D /dev/null "$wrong/$file"
  refused "/$file is a second CUDA"
done
touch "$wrong/opt/torch/lib/libnccl.so.2.28.3"
refused '/opt/torch/lib has not one libnccl.so'
rm "$wrong/opt/torch/lib/libcusolver.so.12"
refused 'libtorch_cuda_linalg.so does not find libcusolver.so.12'
rm "$wrong/opt/torch/lib/libc10.so"
refused 'ringmaster-train does not find libc10.so'
rm "$wrong/usr/local/bin/ringmaster-agent"
refused 'ringmaster-agent is missing'
rm "$wrong/usr/share/doc/libtorch/cusparselt/LICENSE.txt"
refused 'cusparselt/LICENSE.txt is missing'
programs "$wrong/usr/local/bin" "$wrong/opt/torch" "$wrong/opt/torch/lib/libtorch_cuda.so" # --as-needed drops it
refused 'is not linked with /opt/torch/lib/libtorch_cuda.so'
rm "$wrong/etc/ld.so.conf.d/ringmaster.conf" && within "$wrong" ldconfig
run=${run/ && ldconfig/}
refused 'ldconfig -p has no /opt/torch/lib/libnccl.so.2'

rm "$wrong/etc/os-release"
printf 'ID=ubuntu\nVERSION_ID="26.04"\n' >"$wrong/etc/os-release"
! said=$(within "$wrong" bash /opt/ringmaster/images/install-runtime.sh 2>&1) || fail "an unknown Debian release was accepted"
grep -F 'no package list for ubuntu 26.04' <<<"$said" >/dev/null || fail "unexpected error for an unknown release: $said"

# .dockerignore must not exclude files that the Dockerfiles copy: docker and buildah read it at the context's root.
while read -r source; do
  grep -Fx "!${source%%/*}" .dockerignore >/dev/null || fail ".dockerignore excludes $source, which a Dockerfile copies"
  compgen -G "$source" >/dev/null || fail "a Dockerfile copies $source, which does not exist"
done < <(sed -n '/--from/d; s/^COPY \(.*\) [^ ]*$/\1/p' images/*.Dockerfile examples/*/Dockerfile | tr ' ' '\n')
echo "worker_image_test: ok"
