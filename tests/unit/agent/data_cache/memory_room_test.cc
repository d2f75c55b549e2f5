#include "worker/agent/data_cache/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/host/fake_kernel_files.h"

namespace ringmaster::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

MemorySources Sources(const FakeKernelFiles& kernel) { return {kernel.Meminfo(), kernel.Groups()}; }

TEST(NodeMemory, IsWhatTheKernelCallsAvailable) {
  FakeKernelFiles kernel;
  EXPECT_EQ(ReadNodeMemory(Sources(kernel)), 1024 * 1024);
  EXPECT_GT(ReadNodeMemory({}), 0);
  EXPECT_FALSE(ReadNodeMemory({.meminfo = "/no/such/file"}).has_value());
}

TEST(MemoryRoom, OnlyAVolumeInMemoryCountsAgainstIt) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/\n");
  kernel.Write("cgroups/memory.max", "1000000\n");

  const auto in_memory = ReadMemoryRoom("/dev/shm", Sources(kernel));
  const auto elsewhere = ReadMemoryRoom("/proc", Sources(kernel));

  ASSERT_TRUE(in_memory.ok() && elsewhere.ok());
  EXPECT_GT(in_memory->volume_bytes, 0);
  EXPECT_EQ(in_memory->container->limit_bytes, 1'000'000);
  EXPECT_EQ(in_memory->node_bytes, 1024 * 1024);
  EXPECT_FALSE(elsewhere->container.has_value() || elsewhere->node_bytes.has_value());
  EXPECT_FALSE(ReadMemoryRoom("/no/such/folder", Sources(kernel)).ok());
}

TEST(MemoryRoom, ReportsWhatIsTooSmallAndWhatToDo) {
  const SourceSize data{
      .bytes = 140 * kGiB, .bytes_in_pages = 140 * kGiB, .files = 17, .entries = 20};
  const MemoryRoom enough{
      .volume_bytes = 140 * kGiB,
      .volume_files = 20,
      .container = MemoryGroup::Usage{.limit_bytes = 160 * kGiB, .used_bytes = 10 * kGiB},
      .node_bytes = 141 * kGiB};
  EXPECT_EQ(WhyItDoesNotFit(data, enough), std::nullopt);
  EXPECT_EQ(WhyItDoesNotFit(data, {.volume_bytes = 140 * kGiB}), std::nullopt);

  MemoryRoom small = enough;
  small.volume_bytes = 100 * kGiB;
  EXPECT_THAT(WhyItDoesNotFit(data, small).value_or(""),
              AllOf(HasSubstr("140 GiB in 17 files"), HasSubstr("holds 100 GiB"),
                    HasSubstr("raise"), HasSubstr("spec.dataCache.sizeLimit")));
  small = enough;
  small.volume_files = 19;
  EXPECT_THAT(WhyItDoesNotFit(data, small).value_or(""),
              AllOf(HasSubstr("20 files"), HasSubstr("holds 19"), HasSubstr("fewer files")));
  small = enough;
  small.container->used_bytes = 20 * kGiB + 1;
  EXPECT_THAT(WhyItDoesNotFit(data, small).value_or(""),
              AllOf(HasSubstr("limit is 160 GiB"), HasSubstr("21 GiB are used"),
                    HasSubstr("resources.limits.memory")));
  small = enough;
  small.node_bytes = 90 * kGiB;
  EXPECT_THAT(WhyItDoesNotFit(data, small).value_or(""),
              AllOf(HasSubstr("node has 90 GiB"), HasSubstr("memory request")));
}

TEST(MemoryRoom, ManySmallFilesTakeWholePagesAndInodes) {
  SourceSize data;
  for (int i = 0; i < 1000; ++i) {
    data.Add({.kind = SourceEntry::Kind::kFile, .path = "x", .bytes = 1, .link = {}});
  }
  EXPECT_EQ(data.bytes, 1000);
  EXPECT_EQ(data.bytes_in_pages, 4096 * 1000);

  const MemoryRoom pages_alone{.volume_bytes = kGiB, .node_bytes = 4096 * 1000};
  EXPECT_TRUE(WhyItDoesNotFit(data, pages_alone).has_value());
}

}  // namespace
}  // namespace ringmaster::agent
