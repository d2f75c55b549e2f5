#include "worker/agent/host/gpu_xids.h"

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

TEST(GpuXids, WhatAProgramCanCauseIsNoFatalXid) {
  for (const int fatal : {48, 62, 64, 79, 95, 119, 120, 140, 143}) {
    EXPECT_TRUE(IsFatalXid(fatal)) << fatal;
  }
  for (const int other : {8, 13, 31, 43, 45, 63, 68, 92, 94, 109}) {
    EXPECT_FALSE(IsFatalXid(other)) << other;
  }
  EXPECT_EQ(XidText(79), "Xid 79 (the GPU has fallen off the bus)");
  EXPECT_EQ(XidText(31), "Xid 31");
}

}  // namespace
}  // namespace ringmaster::agent
