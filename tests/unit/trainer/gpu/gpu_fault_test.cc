#include "worker/trainer/gpu/gpu_fault.h"

#include <gtest/gtest.h>

namespace ringmaster::trainer {
namespace {

TEST(GpuFault, TheProgramsOwnErrorsDoNotBlameTheDevice) {
  for (const int unhealthy : {46, 100, 214, 220, 802, 999}) {
    EXPECT_TRUE(DeviceIsUnhealthy(unhealthy)) << unhealthy;
  }
  // These errors, such as out of memory or an illegal address, are not faults of the device.
  for (const int other : {2, 98, 209, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_FALSE(DeviceIsUnhealthy(other)) << other;
  }
}

}  // namespace
}  // namespace ringmaster::trainer
