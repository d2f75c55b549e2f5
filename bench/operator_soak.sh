#!/usr/bin/env bash
# Runs 200 random schedules, each with a new operator. Then creates, scales, suspends and deletes jobs at random and injects faults, about
# 50 jobs per minute, under one operator, whose memory must not grow: bench/operator_soak.sh [MINUTES] [FIRST SEED]
set -euo pipefail
. "$(dirname "$0")/lib.sh"
"$root/deploy/local/build.sh" kubernetes etcd >&2
build=$root/build/bench-soak
release "$build" "-DRINGMASTER_TESTS=ON -DRINGMASTER_WORKER=OFF" integration_schedule_test
RINGMASTER_SOAK_MINUTES=${1:-30} RINGMASTER_SEED=${2:-1} RINGMASTER_SEEDS=200 exec "$build/tests/integration/integration_schedule_test" \
  --gtest_also_run_disabled_tests --gtest_filter='ScheduleTest.*:SoakTest.*'
