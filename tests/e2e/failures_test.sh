#!/usr/bin/env bash
# Tests that typical mistakes in a user's job lead to a condition and an event that say what is wrong, where and why.
# Makes each mistake of docs/troubleshooting.md that the API server accepts; tests/integration/refusal_test.cc makes
# those that the API server rejects.
. "$(dirname "$0")/lib.sh"
new_namespace failures

fails_with() { # job reason message-pattern
  wait_condition "$1" Failed True 60
  assert_equal "reason of $1" "$2" "$(condition "$1" Failed reason)"
  assert_contains "message of $1" "$3" "$(condition "$1" Failed message)"
  wait_for "the event of $1" 10 eval "as_user get events --field-selector involvedObject.name=$1,type=Warning | grep $2 >/dev/null"
}

# Jobs that crash wait before each restart, so they run at the same time; the others run one after the other, because the machine is
# small.
job exits-three 2 '[sh, -c, "echo the disk is on fire >&2; exit 3"]' | as_user apply -f -
job killed 2 '[sh, -c, "kill -9 $$"]' | as_user apply -f -

job no-such-command 2 '[no-such-program]' | as_user apply -f -
fails_with no-such-command PreflightFailed 'no-such-command-worker-[01] \(node[0-9]\).*no-such-program'

fails_with exits-three CrashLoop 'rank [01].*exits-three-worker-[01].*(code|with) 3.*5 times in a row'
assert_contains "what it printed last" 'the disk is on fire' "$(condition exits-three Failed message)$(status_field exits-three failures)"

fails_with killed CrashLoop 'signal 9.*5 times in a row'

job no-data 2 '[ringmaster-train, --workload=mnist, --data=/tmp, --global-batch=32, --epochs=1]' | as_user apply -f -
fails_with no-data UserError 'train-images-idx3-ubyte'

job bad-flag 1 '[ringmaster-train, --workload=mnist, --global-batch=minus]' | as_user apply -f -
fails_with bad-flag UserError 'global-batch'

job no-script 1 '[sh, /code/train.sh]' | as_user apply -f -
fails_with no-script UserError 'cannot open /code/train.sh'

worker() { # NAME FIELDS: applies a job whose worker has these fields
  job "$1" 1 "$(generated 10)" | sed "s|worker: {replicas: 1}|worker: {replicas: 1, $2}|" | as_user apply -f -
}
worker misspelt 'template: {spec: {nodeSelektor: {a: b}}}'
fails_with misspelt InvalidSpec 'unknown field "spec.worker.template.spec.nodeSelektor"'

waits_with() { # job reason message-pattern
  says() { [ "$(condition "$1" WorkersReady reason)" = "$2" ]; }
  wait_for "job $1 to wait with reason $2" 60 says "$1" "$2"
  assert_contains "message of $1" "$3" "$(condition "$1" WorkersReady message)"
  as_user delete trainingjob "$1" >/dev/null
}
worker no-gpus 'gpus: 64'
waits_with no-gpus Unschedulable 'Insufficient nvidia.com/gpu; container worker requests 64 nvidia.com/gpu, and no node has any: '
mount='volumeMounts: [{name: data, mountPath: /data}]'
worker no-claim "volumes: [{name: data, persistentVolumeClaim: {claimName: gone}}], $mount"
waits_with no-claim Unschedulable 'cannot be scheduled.*persistentvolumeclaim "gone" not found'
worker no-config-map "volumes: [{name: data, configMap: {name: gone}}], $mount"
waits_with no-config-map PodNotStarting 'configmap "gone" not found'

IMAGE=$OPERATOR_IMAGE job no-agent 1 "$(generated 10)" '  inject: None' | as_user apply -f -
wait_condition no-agent Failed True 60
assert_contains "an image without our programs" 'ringmaster-(agent|launcher)' "$(condition no-agent Failed message)"

IMAGE=localhost/no-such-image:1 job no-image 1 "$(generated 10)" | as_user apply -f -
image_is_missing() { condition no-image WorkersReady reason | grep -xE 'ErrImagePull|ImagePullBackOff' >/dev/null; }
wait_for "WorkersReady=False for the image" 30 image_is_missing
as_user delete trainingjob no-image >/dev/null
