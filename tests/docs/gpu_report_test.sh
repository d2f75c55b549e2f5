#!/usr/bin/env bash
# Tests deploy/gpu-box.sh report with stand-ins for nvidia-smi, cmake, ctest and the built programs: the report's form, the names that
# it leaves out, and the page that shows it.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "FAILED: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset RINGMASTER_BUILD RINGMASTER_RESULTS CUDA_VISIBLE_DEVICES
mkdir -p "$work"/{tree/{deploy,bench/peers/torchrun,common},bin,carried,python/torch,says}
cp deploy/gpu-box.sh deploy/gpu_report.py "$work/tree/deploy"
cp bench/results.py "$work/tree/bench"
cp -r docs crds "$work/tree"
cp -r common/control "$work/tree/common"
rm -rf "$work/tree/docs/gpu-reports"
touch "$work/python/torch/__init__.py"
says=$work/says # files that the stand-ins read
export PATH=$work/bin:$PATH PYTHONPATH=$work/python says HOSTNAME=box17.example.com USER=alice

cat >"$work/bin/nvidia-smi" <<'S'
#!/usr/bin/env bash
case $* in
  *=name\ *) cat "$says/gpus" ;;
  *=name,*) sed 's/$/, 81559, 9.0, 580.95.05/' "$says/gpus" ;;
  'topo -m') printf '\t\033[4mGPU0\tNIC0\033[0m\tCPU Affinity\nGPU0\t X \tPIX\t0-15\n\nLegend: alice on box17, /home/alice/topo.txt\n' ;;
esac
S
cat >"$work/bin/cmake" <<'S'
#!/usr/bin/env bash
echo "$*" >>"$says/cmake"
[ "$1" != --build ] || { mkdir -p "$2"/worker/{trainer,bench} && cp "$says/ringmaster-train" "$2/worker/trainer" && cp "$says/ringmaster-bench" "$2/worker/bench"; }
S
cat >"$work/bin/ctest" <<'S'
#!/usr/bin/env bash
while [ "$1" != --output-junit ]; do shift; done
cp "$says/tests.xml" "$2"
[ ! -e "$says/ctest-fails" ]
S
cat >"$says/ringmaster-train" <<'S'
#!/usr/bin/env bash
case " $* " in *--check-build*)
  printf '    [X] LibTorch 2.15.0\n    [X] CUDA 13.2, kernels for sm_90\n    [X] NCCL 2.30.7\n    [X] GPU 0: NVIDIA H100, sm_90, 81559 MiB; driver for CUDA 13.0\n'
  exit ;;
esac
echo "${NCCL_HOSTID:-alone} $*" >>"$says/trained"
rank=$(sed 's/.*--rank=\([0-9]*\).*/\1/' <<<"$*")
# Like gpu/gpu_choice.cc: rank r uses GPU r of those that CUDA lists.
listed=$(wc -l <"$says/gpus")
[ -z "${CUDA_VISIBLE_DEVICES+set}" ] || listed=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l)
[ "$rank" -lt "$listed" ] || {
  echo "error: --device=cuda: this is rank $rank of its host, counted from 0, which has $listed GPU; start at most one rank per GPU" >&2
  exit 2
}
batch=$(sed 's/.*--global-batch=\([0-9]*\).*/\1/' <<<"$*")
world=$(sed 's/.*--world-size=\([0-9]*\).*/\1/' <<<"$*")
[[ $* != *--rank=0\ * ]] || echo "{\"summary\":{\"global_batch\":$batch,\"world_size\":$world,\"step_ms_median\":64.0}}"
echo "a line of the log" >&2
S
cat >"$says/ringmaster-bench" <<'S'
#!/usr/bin/env bash
[ ! -e "$says/bench-fails" ] || exit 1
echo "${NCCL_HOSTID:-alone} $*" >"$says/reduced"
echo '{"operation":"all-reduce","ranks":2,"rows":[{"in_place":{"busbw_gb_s":1.5}},{"in_place":{"busbw_gb_s":350.25}}]}'
S
cat >"$work/tree/bench/peers/torchrun/throughput.py" <<'S'
import json, os, sys
assert "LD_LIBRARY_PATH" not in os.environ and "--cuda" in sys.argv, sys.argv
print(json.dumps({"setting": "channels-last", "tried": {"plain": 2000.0, "channels-last": 3200.0, "compiled-channels-last": None if os.path.exists(os.environ["says"] + "/compile-fails") else 3000.0}}))
S
chmod +x "$work"/bin/* "$says"/ringmaster-*
cat >"$says/tests.xml" <<'X'
<testsuite name="gpu"><testcase name="trainer_unit_test" classname="trainer_unit_test" time="2.5" status="run"><system-out>[ RUN      ] A.B
[       OK ] A.B (1 ms)</system-out></testcase>
<testcase name="gpu_bench" classname="gpu_bench" time="0.1" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="trainer_gpu_test" classname="trainer_gpu_test" time="61" status="run"><system-out>[ RUN      ] Of/GpuRecovery.GoOn/Killed
first step after a rank was lost: 613 ms
a path: /home/alice/build
[       OK ] Of/GpuRecovery.GoOn/Killed (5400 ms)
[ RUN      ] GpuB12.AllReduce
{"figure":"B12","backend":"nccl","bytes":1048576,"busbw_gb_s":2.10,"of_bare":0.991}
{"figure":"B12","backend":"nccl","bytes":4194304,"busbw_gb_s":3.20,"of_bare":0.987}
[       OK ] GpuB12.AllReduce (900 ms)</system-out></testcase></testsuite>
X

box() { (cd "$work/tree" && deploy/gpu-box.sh "$@" >"$work/said" 2>&1); }
says_of() { jq -r "$1" "$work/tree/build/gpu-box/report/report.json"; }
is() { # jq-path wanted: checks that the report has the wanted value at the path
  [ "$(says_of "$1")" = "$2" ] || fail "expected '$2' for $1, got '$(says_of "$1")'"
}

: >"$says/gpus"
printf '#!/bin/sh\nexit 9\n' >"$work/no-gpu" && chmod +x "$work/no-gpu"
mv "$work/bin/nvidia-smi" "$work/nvidia-smi" && cp "$work/no-gpu" "$work/bin/nvidia-smi"
! box report "$work/carried" || fail "a report was created without a GPU"
grep -F 'nvidia-smi lists no GPU' "$work/said" >/dev/null || fail "unexpected error without a GPU: $(cat "$work/said")"
[ ! -e "$says/cmake" ] || fail "the trainer was built without a GPU"
mv "$work/nvidia-smi" "$work/bin/nvidia-smi"

echo 'NVIDIA H100 80GB HBM3' >"$says/gpus"
box report "$work/carried" || fail "failed to create a report of one GPU: $(cat "$work/said")"
grep -F -- "-DRINGMASTER_CARRIED=$work/carried -DRINGMASTER_LIBTORCH=$work/python/torch" "$says/cmake" >/dev/null || fail "cmake got $(cat "$says/cmake")"
is .form 1
is '.gpus[0] | "\(.name), \(.memory_mib), \(.compute_capability)"' 'NVIDIA H100 80GB HBM3, 81559, 9.0'
is '.driver + ", " + .build.CUDA + ", " + .build.NCCL + ", " + .build["CUDA of the driver"]' '580.95.05, 13.2, kernels for sm_90, 2.30.7, 13.0'
is '[.tests[] | "\(.name) \(.result) \(.seconds)"] | join("; ")' \
  'trainer_unit_test passed 2.5; gpu_bench skipped 0.1; Of/GpuRecovery.GoOn/Killed passed 5.4; GpuB12.AllReduce passed 0.9'
is '.tests[2].measured | join("; ")' 'first step after a rank was lost: 613 ms'
is '[.figures[] | .figure] | join(" ")' 'B12 allreduce training pytorch partial-fc'
is '.figures[2].result.step_ms_median' 64
is '.topology | last' 'Legend: … on …, …'
for name in alice box17 /home "$work"; do
  ! grep -rF -- "$name" "$work/tree/build/gpu-box/report"/report.* || fail "the report contains the name $name"
done
grep -F 'alone --device=cuda --world-size=1 --rank=0' "$says/trained" >/dev/null || fail "trained: $(cat "$says/trained")"
grep -F 'bench allreduce --backend=nccl --ranks=2' "$says/reduced" >/dev/null || fail "reduced: $(cat "$says/reduced")"
grep -F '| 1 × NVIDIA H100 80GB HBM3 | 580.95.05 | 2.30.7 | 3 passed, 0 failed, 1 skipped | ≥ 0.987 of bare calls | 350 GB/s, 2 ranks | 4,000 samples/s, 1 ranks, 1.25 × PyTorch | 3,200 samples/s, channels-last |' \
  "$work/tree/build/gpu-box/report/report.md" >/dev/null || fail "unexpected page: $(cat "$work/tree/build/gpu-box/report/report.md")"

# Render the page without a report, with one, and with files that are not reports.
render() { (cd "$work/tree" && python3 docs/render.py "$@" >"$work/said" 2>&1); }
page=$work/tree/docs/gpu-reports.md
render || fail "$(cat "$work/said")"
grep -x 'No report has come yet.' "$page" >/dev/null || fail "unexpected page without a report: $(cat "$page")"
mkdir "$work/tree/docs/gpu-reports"
kept=$work/tree/docs/gpu-reports/2026-11-26-h100.json
cp "$work/tree/build/gpu-box/report/report.json" "$kept"
! render --check || fail "a page that lacks a report passed the check"
render || fail "the page: $(cat "$work/said")"
render --check || fail "a page that was just rendered failed the check"
grep -F '4,000 samples/s, 1 ranks' "$page" >/dev/null || fail "the page shows no throughput: $(cat "$page")"
grep -F '| Of/GpuRecovery.GoOn/Killed | passed | 5.4 | first step after a rank was lost: 613 ms |' "$page" >/dev/null || fail "the page shows no case: $(cat "$page")"
tests/lint/markdown.py 160 "$page" || fail "lines of the page are too long"
jq '.kernel = "6.1, see /home/alice/notes"' "$kept" >"$work/x" && cp "$work/x" "$kept"
! render --check || fail "a report that contains a path was accepted"
grep -F 'names paths of the machine' "$work/said" >/dev/null || fail "unexpected error for a path: $(cat "$work/said")"
jq 'del(.driver) | .kernel = ""' "$kept" >"$work/x" && cp "$work/x" "$kept"
! render --check || fail "a report without a driver was accepted"
grep -F 'check driver' "$work/said" >/dev/null || fail "unexpected error for a missing driver: $(cat "$work/said")"

# With two GPUs, one rank runs on each GPU. A crash in a case, a missing test and a failed figure are in the report, and the command fails.
echo 'NVIDIA H100 80GB HBM3' >>"$says/gpus"
sed -i '/OK ] GpuB12/d; s/time="61" status="run"/time="61" status="fail"/' "$says/tests.xml"
cat >>"$says/tests.xml" <<'X'
</system-out></testcase>
<testcase name="trainer_missing" time="0" status="notrun"><skipped message="Unable to find executable: trainer_missing"/></testcase></testsuite>
X
touch "$says/ctest-fails" "$says/bench-fails" "$says/compile-fails"
: >"$says/trained"
! box report "$work/carried" || fail "a report with failures exited with code 0"
is '[.tests[] | select(.result == "failed") | .name] | join(" ")' 'GpuB12.AllReduce trainer_missing'
is '.figures[1].result' null
grep -F '2 × NVIDIA H100 80GB HBM3: 2 passed, 2 failed, 1 skipped; B12' "$work/said" >/dev/null || fail "unexpected output: $(cat "$work/said")"
grep -F 'allreduce failed, training 8,000 samples/s, 2 ranks, pytorch 3,200 samples/s, channels-last; compiled-channels-last failed' "$work/said" >/dev/null || fail "unexpected output: $(cat "$work/said")"
for rank in 0 1; do
  grep -E "^alone .*--world-size=2 --rank=$rank .*--global-batch=512 .*--classes=200000" "$says/trained" >/dev/null || fail "trained: $(cat "$says/trained")"
done
echo "gpu_report_test: ok"
