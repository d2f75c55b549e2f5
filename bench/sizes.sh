#!/usr/bin/env bash
# Figure B14: sizes in bytes of the CRDs, and of the images of operator, tools and worker as a registry stores them (compressed).
# Builds the images that are missing or out of date.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/images/build.sh" operator tools worker-debian13 >&2
sizes=$("$root/images/build.sh" --sizes)
crd=$(wc -c <"$root/crds/ringmaster.dev_trainingjobs.yaml")
profile_crd=$(wc -c <"$root/crds/ringmaster.dev_trainingprofiles.yaml")
operator=$(jq .operator_bytes <<<"$sizes") tools=$(jq .tools_bytes <<<"$sizes") worker=$(jq .worker_bytes <<<"$sizes")
echo "CRDs:           $crd bytes (TrainingJob), $profile_crd bytes (TrainingProfile)"
echo "operator image: $operator bytes compressed"
echo "tools image:    $tools bytes compressed"
echo "worker image:   $worker bytes compressed (Debian 13, without CUDA)"
jq -cn --argjson crd "$crd" --argjson profile_crd "$profile_crd" --argjson operator "$operator" --argjson tools "$tools" --argjson worker "$worker" '{
  figure: "B14", value: ($worker / 1e6 | . * 10 | round / 10), unit: "MB, worker image without CUDA, compressed", reference: null,
  goal: "CRD < 200 kB, operator <= 10 MB, worker <= 230 MB",
  holds: ($crd < 200000 and $profile_crd < 200000 and $operator <= 10e6 and $worker <= 230e6),
  crd_bytes: $crd, profile_crd_bytes: $profile_crd, operator_mb: ($operator / 1e6 | . * 10 | round / 10), tools_mb: ($tools / 1e6 | . * 10 | round / 10),
  worker_mb: ($worker / 1e6 | . * 10 | round / 10)}'
