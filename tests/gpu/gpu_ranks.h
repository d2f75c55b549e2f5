#pragma once

// Runs ranks that share GPU 0 as child processes of a test. The test process never starts CUDA.

#include <chrono>
#include <functional>
#include <sys/types.h>

#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

// Starts a process that NCCL treats as host `number`. The process exits with the result of `body`;
// 0 is success. It is killed when the test process ends.
pid_t StartGpuProcess(int number, const std::function<int()>& body);

// Returns the exit code, or 128 + the signal. Kills the process after `limit` and returns -1.
int AwaitExit(pid_t process, std::chrono::seconds limit);

// Runs the ranks of one world, which connect through one folder. Expects all of them to succeed.
void RunGpuRanks(int size, const std::function<int(const World& world)>& body);

}  // namespace ringmaster::trainer
