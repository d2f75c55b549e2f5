#!/usr/bin/env bash
# Tests that ranks on hosts with links of a limited rate train with and without compression, and that no hosts remain
# afterwards: link_test.sh PROGRAM. Does not test the speed, which ringmaster-bench compression --link measures.
set -euo pipefail
program=$1
[ "$(id -u)" -eq 0 ] || { echo "skipped: creating network namespaces requires root" && exit 77; }
result=$("$program" compression --generated-samples=64 --epochs=1 --ranks=2 --link=1Gbit --link-steps=3 --json=- | tee /dev/stderr | tail -n 1)
jq -e '.link.parameters > 10000000 and (.link.rows | length == 3) and .link.fp8_speedup > 0' <<<"$result" >/dev/null
! ip netns list | grep '^rmb' || { echo "network namespaces were left behind" && exit 1; }
