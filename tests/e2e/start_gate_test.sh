#!/usr/bin/env bash
# Tests the start gate with an mpirun that ignores the hostfile: it starts every rank on one host and would report success. The job
# must fail with WorldMismatch. Argument: debian13 (Open MPI 5) or debian12 (Open MPI 4).
. "$(dirname "$0")/lib.sh"
distribution=${1:?debian13 or debian12}
IMAGE=localhost/ringmaster-worker:$version-$distribution
new_namespace "start-gate-$distribution"

# This script is first in the launcher's PATH: it drops `--hostfile FILE` and calls the real mpirun.
cat >"/tmp/mpirun.$$" <<'W'
#!/bin/sh
for argument; do
  shift
  if [ "$skip" = yes ]; then skip=no; continue; fi
  if [ "$argument" = --hostfile ]; then skip=yes; continue; fi
  set -- "$@" "$argument"
done
exec /usr/bin/mpirun "$@"
W
as_user create configmap broken --from-file="mpirun=/tmp/mpirun.$$" >/dev/null
rm "/tmp/mpirun.$$"

job broken 2 "$(generated 20)" '
  launcher:
    template:
      spec:
        containers:
        - name: launcher
          env: [{name: PATH, value: "/broken:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}]
          volumeMounts: [{name: broken, mountPath: /broken}]
        volumes: [{name: broken, configMap: {name: broken, defaultMode: 0555}}]' | as_user apply -f -

wait_condition broken Failed True 90
assert_equal "reason" WorldMismatch "$(condition broken Failed reason)"
assert_contains "the set that was expected" 'broken-worker-0' "$(condition broken Failed message)"
