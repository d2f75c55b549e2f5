// The soak test of the operator, run by `make soak`. Plays schedules for RINGMASTER_SOAK_MINUTES
// (default 30) with one operator process, and measures its memory, descriptors and threads after
// each. The maximum of each in the last third must not exceed the maximum in the second third.

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tests/fakes/number_from.h"
#include "tests/integration/schedule_player.h"

namespace ringmaster::testing {
namespace {

struct Sample {
  int64_t resident_kib = 0;
  int64_t descriptors = 0;
  int64_t threads = 0;
};

Sample SampleOf(int pid) {
  const std::filesystem::path process = "/proc/" + std::to_string(pid);
  Sample sample{.resident_kib = StatusField(pid, "VmRSS"), .threads = StatusField(pid, "Threads")};
  sample.descriptors = std::distance(std::filesystem::directory_iterator(process / "fd"),
                                     std::filesystem::directory_iterator());
  return sample;
}

// Returns the greatest value of `what` among the samples [from, to).
int64_t Most(const std::vector<Sample>& samples, std::size_t from, std::size_t to,
             int64_t Sample::*what) {
  int64_t most = 0;
  for (std::size_t i = from; i < to; ++i) most = std::max(most, samples[i].*what);
  return most;
}

using SoakTest = SchedulePlayer;

TEST_F(SoakTest, DISABLED_NothingGrows) {
  const auto begin = std::chrono::steady_clock::now();
  const auto minutes = [&] {
    return std::chrono::duration<double, std::ratio<60>>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  const auto length = static_cast<double>(NumberFrom("RINGMASTER_SOAK_MINUTES", 30));
  std::vector<Sample> samples;
  int64_t jobs = 0;
  const uint64_t first = NumberFrom("RINGMASTER_SEED", 1);
  for (uint64_t seed = first; minutes() < length; ++seed) {
    const Schedule schedule = WithoutKills(DrawSchedule(seed));
    Play(schedule);
    ASSERT_FALSE(HasFailure()) << TextOf(schedule)
                               << "in the soak that began with RINGMASTER_SEED=" << first;
    jobs += std::count_if(schedule.steps.begin(), schedule.steps.end(),
                          [](const auto& step) { return step.kind == StepKind::kCreate; });
    samples.push_back(SampleOf(op().process().pid()));
    const Sample& last = samples.back();
    std::printf("%.1f min: %lld jobs, %lld KiB resident, %lld descriptors, %lld threads\n",
                minutes(), static_cast<long long>(jobs), static_cast<long long>(last.resident_kib),
                static_cast<long long>(last.descriptors), static_cast<long long>(last.threads));
  }
  const std::size_t third = samples.size() / 3;
  ASSERT_GT(third, 0U) << "too short to compare";
  const auto grown = [&](int64_t Sample::*what) {
    return Most(samples, 2 * third, samples.size(), what) - Most(samples, third, 2 * third, what);
  };
  EXPECT_LE(grown(&Sample::resident_kib), 2048);
  EXPECT_LE(grown(&Sample::descriptors), 8);
  EXPECT_LE(grown(&Sample::threads), 2);
  std::printf(
      "%zu schedules, %lld jobs, %.1f a minute; resident: %lld, then %lld, then %lld KiB\n",
      samples.size(), static_cast<long long>(jobs), static_cast<double>(jobs) / minutes(),
      static_cast<long long>(Most(samples, 0, third, &Sample::resident_kib)),
      static_cast<long long>(Most(samples, third, 2 * third, &Sample::resident_kib)),
      static_cast<long long>(Most(samples, 2 * third, samples.size(), &Sample::resident_kib)));
}

}  // namespace
}  // namespace ringmaster::testing
