#include "worker/agent/app/worker_readiness.h"

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

// Starting a program blocks if its volume hangs, and the checks find this out.
TEST(WorkerReadiness, RanksLoadOnceTheChecksHaveEnded) {
  Config config;
  config.spec.command = {"/bin/true"};
  config.spec.in_place = true;
  config.launcher_address = "127.0.0.1";
  config.container = {{"PATH", "/nowhere"}};
  const Credentials credentials;
  boost::asio::io_context io;
  ChildReaper reaper(io);
  bool loadable = false;
  WorkerReadiness readiness(io, reaper, config, credentials,
                            {.on_change = [](const control::AgentReady&) {},
                             .on_gpus = [](const GpuList&) {},
                             .on_gpu_trouble = [](const GpuTrouble&) {},
                             .on_loadable = [&] { loadable = true; },
                             .on_progress = [](const control::DataCacheProgress&) {}});

  readiness.Start();
  EXPECT_FALSE(loadable);
  while (!loadable && io.run_one() > 0) {
  }

  EXPECT_TRUE(loadable);
  readiness.Stop();
}

}  // namespace
}  // namespace ringmaster::agent
