#!/usr/bin/env bash
# Tests that ringmaster-bench refuses wrong input with exit code 2 and a message that names the input: bad_input_test.sh PROGRAM
set -uo pipefail
program=$1 status=0
refused() { # SAYS ARGUMENTS...
  local says=$1 code=0 output
  shift
  output=$("$program" "$@" 2>&1) || code=$?
  [ $code -eq 2 ] || { echo "$*: expected exit code 2, got $code: $output" && status=1; }
  [[ $output == *"$says"* ]] || { echo "$*: expected '$says', got: $output" && status=1; }
}
refused "subcommand"
refused "--no-such-flag" allreduce --no-such-flag
refused "8T" allreduce -b 8T
refused "must be at least 1" allreduce -b 2M -e 1M
refused "-i 0" allreduce -b 1 -e 8 -i 0
refused "spec.slotsPerWorker" allreduce -g 8 --backend=mpi
refused "excludes" allreduce -g 2 --ranks=2
refused "float8" allreduce -d float8
refused "avg" allreduce -o avg
refused "-r 7" broadcast -b 8 -e 8 -r 7
refused "smaller than one element" all-gather -b 4 -e 4 -d double
refused "not include NCCL" allreduce --backend=nccl
refused "not implement reduce over gloo" reduce --backend=gloo
refused "not use CUDA graphs" allreduce -G 1
refused "-R 1 registers memory with NCCL" allreduce --backend=gloo -R 1
refused "not use symmetric memory" allreduce -R 2
refused "--average" allreduce -a 4
refused "--network" throughput --network=vgg
refused "mpi" allreduce --backend=mpi
refused "'none'" communicator -b none
refused "/no/such/folder" compression --data=/no/such/folder
refused "is not a valid rate" compression --link=fast
refused "samples" throughput --global-batch=1
exit $status
