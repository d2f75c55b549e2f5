#include "worker/agent/host/gpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<GpuDevice> kFour{{"GPU-aa"}, {"GPU-ab"}, {"MIG-cc"}, {"GPU-dd"}};

std::vector<std::string> Uuids(const std::vector<GpuDevice>& devices) {
  std::vector<std::string> uuids;
  for (const GpuDevice& device : devices) uuids.push_back(device.uuid);
  return uuids;
}

TEST(GpuList, EachSlotHasItsOwn) {
  EXPECT_THAT(AssignGpus(kFour, 4), ElementsAre("GPU-aa", "GPU-ab", "MIG-cc", "GPU-dd"));
  EXPECT_THAT(AssignGpus(kFour, 2), ElementsAre("GPU-aa,GPU-ab", "MIG-cc,GPU-dd"));
  EXPECT_THAT(AssignGpus(kFour, 3), ElementsAre("GPU-aa", "GPU-ab", "MIG-cc"));
  EXPECT_THAT(AssignGpus(kFour, 5), IsEmpty()) << "one would have none";
  EXPECT_THAT(AssignGpus({}, 2), IsEmpty());
}

TEST(GpuList, AGpuThatDoesNotAnswerKeepsItsPlace) {
  EXPECT_THAT(AssignGpus({{"GPU-a", "GPU is lost"}, {"GPU-b"}}, 2), ElementsAre("GPU-a", "GPU-b"));
}

TEST(GpuList, TheUsersChoiceIsReadAsCudaReadsIt) {
  const auto chosen = [](const std::string& visible) { return Uuids(ChooseGpus(kFour, visible)); };
  EXPECT_THAT(chosen("3,0"), ElementsAre("GPU-dd", "GPU-aa"));
  EXPECT_THAT(chosen("GPU-ab, MIG-cc"), ElementsAre("GPU-ab", "MIG-cc"));
  EXPECT_THAT(chosen("GPU-d"), ElementsAre("GPU-dd"));
  EXPECT_THAT(chosen("1,-1,2"), ElementsAre("GPU-ab")) << "it ends there";
  EXPECT_THAT(chosen("7"), IsEmpty());
  EXPECT_THAT(chosen(""), IsEmpty());
}

TEST(GpuList, WhatNvidiaSmiLists) {
  const std::vector<GpuDevice> listed = ListedGpus(
      "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n"
      "Unable to determine the device handle for gpu 0000:3B:00.0: GPU is lost.\n"
      "GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-cc)\n"
      "  MIG 3g.20gb     Device  0: (UUID: MIG-c1)\n"
      "  MIG 3g.20gb     Device  1: (UUID: MIG-c2)\n");
  EXPECT_THAT(Uuids(listed), ElementsAre("GPU-aa", "", "MIG-c1", "MIG-c2"));
  EXPECT_THAT(listed[1].fault, testing::HasSubstr("GPU is lost"));
  EXPECT_THAT(ListedGpus("No devices were found\n"), IsEmpty());
}

TEST(GpuList, TakesUuidsFromADevicePlugin) {
  EXPECT_THAT(AssignedGpus("GPU-aa,MIG-cc"), ElementsAre("GPU-aa", "MIG-cc"));
  for (const char* other : {"all", "none", "void", "0,1", ""}) {
    EXPECT_THAT(AssignedGpus(other), IsEmpty()) << other;
  }
}

}  // namespace
}  // namespace ringmaster::agent
