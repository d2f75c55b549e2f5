#!/bin/bash
# The last step of worker.Dockerfile: every program of ours finds its libraries and starts, in the image as shipped, and the
# licences that ask for it are there.
set -euo pipefail
status=0
for licence in libtorch/torch-*/LICENSE libtorch/nvidia_cuda_{runtime,cupti}-*/License.txt libtorch/mkl.txt gloo/LICENSE; do
  compgen -G "/usr/share/doc/$licence" >/dev/null || { echo "check.sh: /usr/share/doc/$licence is missing from the image" >&2 && status=1; }
done
for program in /usr/local/bin/ringmaster-{agent,attach,launcher,train,audit,bench}; do
  if [ ! -x "$program" ]; then
    echo "check.sh: $program is missing from the image" >&2 && status=1
    continue
  fi
  missing=$(ldd "$program" | sed -n 's/ => not found//p' | tr -d '\t' | tr '\n' ' ')
  if [ -n "$missing" ]; then
    echo "check.sh: $program does not find ${missing}; name its package in packages.sh, its file in slim.sh" >&2 && status=1
  else
    # Not every program knows --version; one that the loader or a constructor stops ends with 126, 127 or a signal.
    result=0
    LD_BIND_NOW=1 "$program" --version || result=$?
    [ $result -lt 126 ] || { echo "check.sh: $program does not start (exit code $result)" >&2 && status=1; }
  fi
done
exit $status
