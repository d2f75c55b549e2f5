// Runs the tests if there is a GPU; otherwise exits with 77.

#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "worker/trainer/gpu/gpu.h"

namespace {

constexpr int kSkipped = 77;

// Checks in a child process: if this process started CUDA, CUDA would not work in later children.
bool HasGpu() {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    using namespace ringmaster::trainer;
    const auto chosen = ChooseGpu({.device = "cuda"}, FindGpus());
    if (!chosen.ok()) std::printf("skipped: no GPU: %s\n", chosen.error().message.c_str());
    std::fflush(nullptr);
    ::_exit(chosen.ok() ? 0 : 1);
  }
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::signal(SIGPIPE, SIG_IGN);  // a write to the pipe of a killed rank raises SIGPIPE
  if (!HasGpu()) return kSkipped;
  return RUN_ALL_TESTS();
}
