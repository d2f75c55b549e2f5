#pragma once

// Ranks that share GPU 0, as processes of a test. The test's own process never starts CUDA.

#include <chrono>
#include <functional>
#include <sys/types.h>

#include "worker/trainer/comm/world.h"

namespace ringmaster::trainer {

// A new process that NCCL takes for host `number`, ended by what `body` returns: 0 is success. It
// dies with the test's process.
pid_t StartGpuProcess(int number, const std::function<int()>& body);

// The exit code, 128 + the signal that ended it, or -1 after `limit`, when it is killed.
int AwaitExit(pid_t process, std::chrono::seconds limit);

// The ranks of one world that meet in a folder; expects that all succeed.
void RunGpuRanks(int size, const std::function<int(const World& world)>& body);

}  // namespace ringmaster::trainer
