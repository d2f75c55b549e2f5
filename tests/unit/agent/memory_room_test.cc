#include "worker/agent/data_cache/memory_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_kernel_files.h"

namespace ringmaster::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(ContainerMemory, OfVersion2IsWhatTheContainerSeesAtItsRoot) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/\n");
  kernel.Write("cgroups/memory.max", "1000000\n");
  kernel.Write("cgroups/memory.current", "300000\n");
  kernel.Write("cgroups/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");

  const auto memory = ReadContainerMemory(kernel.Memory());

  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->limit_bytes, 1'000'000);
  EXPECT_EQ(memory->used_bytes, 200'000);
}

TEST(ContainerMemory, OfVersion1HidesItsPathInTheHost) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "5:cpu,cpuacct:/x\n4:memory:/kubepods/pod1/c2\n0::/\n");
  kernel.Write("cgroups/memory/memory.limit_in_bytes", "1000000\n");
  kernel.Write("cgroups/memory/memory.usage_in_bytes", "300000\n");
  kernel.Write("cgroups/memory/memory.stat", "total_inactive_file 100000\n");

  const auto memory = ReadContainerMemory(kernel.Memory());

  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->limit_bytes, 1'000'000);
  EXPECT_EQ(memory->used_bytes, 200'000);
}

TEST(ContainerMemory, TheTightestOfTheGroupsAroundItCounts) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/pod/container\n");
  kernel.Write("cgroups/pod/container/memory.max", "max\n");
  kernel.Write("cgroups/pod/memory.max", "5000\n");
  kernel.Write("cgroups/memory.max", "9000\n");
  kernel.Write("cgroups/memory.current", "8000\n");

  EXPECT_EQ(ReadContainerMemory(kernel.Memory())->limit_bytes, 9000);
}

TEST(ContainerMemory, NoLimitIsNone) {
  FakeKernelFiles kernel;
  EXPECT_FALSE(ReadContainerMemory(kernel.Memory()).has_value());
  kernel.Write("cgroup", "garbage\n4:memory:/\n0::/\n");
  kernel.Write("cgroups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.Write("cgroups/memory.max", "max\n");

  EXPECT_FALSE(ReadContainerMemory(kernel.Memory()).has_value());
}

TEST(NodeMemory, IsWhatTheKernelCallsAvailable) {
  FakeKernelFiles kernel;
  EXPECT_EQ(ReadNodeMemory(kernel.Memory()), 1024 * 1024);
  EXPECT_GT(ReadNodeMemory({}), 0);
  EXPECT_FALSE(ReadNodeMemory({.meminfo = "/no/such/file"}).has_value());
}

TEST(MemoryRoom, OnlyAVolumeInMemoryCountsAgainstIt) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/\n");
  kernel.Write("cgroups/memory.max", "1000000\n");

  const auto in_memory = ReadMemoryRoom("/dev/shm", kernel.Memory());
  const auto elsewhere = ReadMemoryRoom("/proc", kernel.Memory());

  ASSERT_TRUE(in_memory.ok() && elsewhere.ok());
  EXPECT_GT(in_memory->volume_bytes, 0);
  EXPECT_EQ(in_memory->container->limit_bytes, 1'000'000);
  EXPECT_EQ(in_memory->node_bytes, 1024 * 1024);
  EXPECT_FALSE(elsewhere->container.has_value() || elsewhere->node_bytes.has_value());
  EXPECT_FALSE(ReadMemoryRoom("/no/such/folder", kernel.Memory()).ok());
}

TEST(MemoryRoom, SaysWhatIsTooSmallAndWhatToDo) {
  const SourceSize data{
      .bytes = 140 * kGiB, .bytes_in_pages = 140 * kGiB, .files = 17, .entries = 20};
  const MemoryRoom enough{
      .volume_bytes = 140 * kGiB,
      .volume_files = 20,
      .container = MemoryRoom::Container{.limit_bytes = 160 * kGiB, .used_bytes = 10 * kGiB},
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
