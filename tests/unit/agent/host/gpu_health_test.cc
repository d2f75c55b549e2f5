#include "worker/agent/host/gpu_health.h"

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

TEST(GpuHealth, AFatalXidMakesADeviceUselessOnceAndItsOwnAlone) {
  GpuHealth health;
  EXPECT_FALSE(health.Note({"GPU-a", 31})) << "a program can cause it";
  EXPECT_FALSE(health.Lost("GPU-a"));
  EXPECT_TRUE(health.Note({"GPU-a", 79}));
  EXPECT_FALSE(health.Note({"GPU-a", 79}));
  EXPECT_TRUE(health.Lost("GPU-a"));
  EXPECT_FALSE(health.Lost("GPU-b"));
}

TEST(GpuHealth, OneThatDoesNotAnswerIsUnhealthyAndAnUnnamedOneIsIgnored) {
  GpuHealth health;
  EXPECT_TRUE(health.Note({"GPU-a", 0, "GPU is lost"}));
  EXPECT_FALSE(health.Note({"", 79}));
  EXPECT_FALSE(health.Lost(""));
}

TEST(GpuHealth, ReportsTheRanksErrorAndWhatMadeTheDeviceUnhealthy) {
  GpuHealth health;
  EXPECT_EQ(health.WhyUnhealthy(2, "", {}), "the GPU of slot 2: its rank reported it as unhealthy");
  EXPECT_EQ(health.WhyUnhealthy(2, "GPU-a", {"one", "step 7: CUDA reported no", "two"}),
            "GPU-a of slot 2: step 7: CUDA reported no");
  health.Note({"GPU-a", 79});
  health.Note({"GPU-a", 0, "GPU is lost"});
  EXPECT_EQ(health.WhyUnhealthy(0, "GPU-a", {"CUDA reported no"}),
            "GPU-a of slot 0: CUDA reported no; the driver reported Xid 79 (the GPU has fallen off "
            "the bus)");
}

}  // namespace
}  // namespace ringmaster::agent
