// Tests how a lack of memory is read from the kernel's files, with a tree of test files
// (memory_group.h, oom_watch.h).

#include <csignal>

#include <gtest/gtest.h>

#include "tests/unit/agent/host/fake_kernel_files.h"
#include "worker/agent/host/oom_watch.h"

namespace ringmaster::agent {
namespace {

using namespace std::chrono_literals;

constexpr ProcessEnd kBySigkill{-1, SIGKILL};

class FakeGroups : public FakeKernelFiles {
 public:
  // Writes the files of cgroup v1 as a container sees them.
  void Version1(int kills) {
    Write("cgroup", "4:memory:/kubepods/pod1/c2\n0::/\n");
    Write("cgroups/memory/memory.limit_in_bytes", "67108864\n");
    Write("cgroups/memory/memory.max_usage_in_bytes", "67108000\n");
    Write("cgroups/memory/memory.oom_control",
          "oom_kill_disable 0\nunder_oom 0\noom_kill " + std::to_string(kills) + "\n");
  }
  void Version2(int kills) {
    Write("cgroup", "0::/\n");
    Write("cgroups/memory.max", "67108864\n");
    Write("cgroups/memory.peak", "67108000\n");
    Write("cgroups/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill " +
                                       std::to_string(kills) + "\noom_group_kill 0\n");
  }
};

std::optional<MemoryGroup::Usage> TightestOf(const FakeKernelFiles& kernel) {
  const auto group = MemoryGroup::Find(kernel.Groups());
  return group.has_value() ? group->Tightest() : std::nullopt;
}

TEST(MemoryGroup, OfVersion2IsWhatTheContainerSeesAtItsRoot) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/\n");
  kernel.Write("cgroups/memory.max", "1000000\n");
  kernel.Write("cgroups/memory.current", "300000\n");
  kernel.Write("cgroups/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");

  const auto memory = TightestOf(kernel);

  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->limit_bytes, 1'000'000);
  EXPECT_EQ(memory->used_bytes, 200'000);
}

TEST(MemoryGroup, OfVersion1HidesItsPathInTheHost) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "5:cpu,cpuacct:/x\n4:memory:/kubepods/pod1/c2\n0::/\n");
  kernel.Write("cgroups/memory/memory.limit_in_bytes", "1000000\n");
  kernel.Write("cgroups/memory/memory.usage_in_bytes", "300000\n");
  kernel.Write("cgroups/memory/memory.stat", "total_inactive_file 100000\n");

  const auto memory = TightestOf(kernel);

  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->limit_bytes, 1'000'000);
  EXPECT_EQ(memory->used_bytes, 200'000);
}

TEST(MemoryGroup, TheTightestOfTheGroupsAroundItCounts) {
  FakeKernelFiles kernel;
  kernel.Write("cgroup", "0::/pod/container\n");
  kernel.Write("cgroups/pod/container/memory.max", "max\n");
  kernel.Write("cgroups/pod/memory.max", "5000\n");
  kernel.Write("cgroups/memory.max", "9000\n");
  kernel.Write("cgroups/memory.current", "8000\n");

  EXPECT_EQ(TightestOf(kernel)->limit_bytes, 9000);
}

TEST(MemoryGroup, NoLimitIsNone) {
  FakeKernelFiles kernel;
  EXPECT_FALSE(TightestOf(kernel).has_value());
  kernel.Write("cgroup", "garbage\n4:memory:/\n0::/\n");
  kernel.Write("cgroups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.Write("cgroups/memory.max", "max\n");

  EXPECT_FALSE(TightestOf(kernel).has_value());
}

TEST(MemoryGroup, BothVersionsReportLimitPeakAndKills) {
  FakeGroups version1;
  version1.Version1(7);
  FakeGroups version2;
  version2.Version2(7);
  for (const FakeGroups* groups : {&version1, &version2}) {
    const auto group = MemoryGroup::Find(groups->Groups());
    ASSERT_TRUE(group.has_value());
    EXPECT_EQ(group->Limit(), 67108864);
    EXPECT_EQ(group->Peak(), 67108000);
    EXPECT_EQ(group->Kills(), 7);
  }
}

TEST(MemoryGroup, ThePeakAndTheKillsAreItsOwnAndTheLimitIsTheLowestAroundIt) {
  FakeGroups groups;
  groups.Write("cgroup", "0::/pod/container\n");
  groups.Write("cgroups/pod/container/memory.max", "max\n");
  groups.Write("cgroups/pod/container/memory.events", "oom_kill 1\n");
  groups.Write("cgroups/pod/memory.max", "5000\n");
  groups.Write("cgroups/pod/memory.peak", "4999\n");
  groups.Write("cgroups/pod/memory.events", "oom_kill 3\n");

  const auto group = MemoryGroup::Find(groups.Groups());

  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->Limit(), 5000);
  EXPECT_EQ(group->Peak(), std::nullopt);  // this kernel does not record the peak
  EXPECT_EQ(group->Kills(), 1);
}

TEST(OomWatch, OneKillExplainsOneEnd) {
  FakeGroups groups;
  groups.Version1(3);  // earlier kills
  OomWatch watch(MemoryGroup::Find(groups.Groups()));
  OomWatch::Time now{1h};
  EXPECT_FALSE(watch.Explain(kBySigkill, now).has_value());

  groups.Version1(5);
  const auto first = watch.Explain(kBySigkill, now += 1s);
  const auto second = watch.Explain(kBySigkill, now += 10ms);
  const auto third = watch.Explain(kBySigkill, now += 10ms);

  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->limit_bytes, 67108864);
  EXPECT_EQ(first->peak_bytes, 67108000);
  EXPECT_FALSE(third.has_value());
}

TEST(OomWatch, OnlyWhatTheKernelEndsIsALackOfMemory) {
  FakeGroups groups;
  groups.Version2(0);
  OomWatch watch(MemoryGroup::Find(groups.Groups()));
  const OomWatch::Time now{1h};
  groups.Version2(1);

  EXPECT_FALSE(watch.Explain({-1, SIGSEGV}, now).has_value());
  EXPECT_FALSE(watch.Explain({1, 0}, now).has_value());
  EXPECT_TRUE(watch.Explain({128 + SIGKILL, 0}, now).has_value());  // the exit code of a shell
}

TEST(OomWatch, AKillOfAnotherProcessExplainsNothingLater) {
  FakeGroups groups;
  groups.Version2(0);
  OomWatch watch(MemoryGroup::Find(groups.Groups()));
  OomWatch::Time now{1h};
  groups.Version2(2);
  EXPECT_TRUE(watch.Explain(kBySigkill, now).has_value());

  EXPECT_FALSE(watch.Explain(kBySigkill, now + 3s).has_value());
}

TEST(OomWatch, WithoutAControlGroupItReportsNothing) {
  OomWatch watch(std::nullopt);
  EXPECT_FALSE(watch.Explain(kBySigkill, OomWatch::Time{1h}).has_value());
}

}  // namespace
}  // namespace ringmaster::agent
