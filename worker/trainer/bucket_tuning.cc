#include "worker/trainer/bucket_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr int kSmallRounds = 9;
constexpr int kLargeRounds = 5;
constexpr double kLargeSeconds = 0.05;      // what one reduction of the large size may take
constexpr int64_t kLargestProbe = 8 << 20;  // bytes

Elements First(Elements values, std::size_t count) { return {values.data, count, values.type}; }

// The median of `rounds` reductions of so many bytes, as the slowest rank sees it.
Result<double> SecondsOf(Communicator& communicator, Elements values, int rounds,
                         const Clock& clock, Deadline deadline) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = clock.Now();
    const WorkHandle work = communicator.AllReduce(values, ReduceOp::kSum, deadline);
    if (const Result<void> done = work->Wait(); !done.ok()) return done.error();
    const std::optional<Work::Span> span = work->span();
    const auto took = span ? span->end - span->begin : clock.Now() - begin;
    seconds.push_back(std::chrono::duration<double>(took).count());
  }
  const auto middle = seconds.begin() + rounds / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  std::array<float, 1> slowest{static_cast<float>(*middle)};
  const Result<void> agreed = WaitConfirmed(
      communicator, communicator.AllReduce(std::span<float>(slowest), ReduceOp::kMax, deadline));
  if (!agreed.ok()) return agreed.error();
  return static_cast<double>(slowest[0]);
}

Result<ReductionCost> Measure(Communicator& communicator, Elements memory, const Clock& clock,
                              Deadline deadline) {
  const auto bytes_of = [](std::size_t values) {
    return static_cast<double>(values * sizeof(float));
  };
  constexpr auto kProbe = static_cast<std::size_t>(BucketTuner::kGrain) / sizeof(float);
  const std::size_t small = std::min(kProbe, memory.count);
  const Result<double> first =
      SecondsOf(communicator, First(memory, small), kSmallRounds, clock, deadline);
  if (!first.ok()) return first.error();
  const double fits = std::clamp(kLargeSeconds / std::max(*first, 1e-9), 1.0,
                                 static_cast<double>(kLargestProbe / BucketTuner::kGrain));
  const std::size_t large = std::min(small * static_cast<std::size_t>(fits), memory.count);
  if (large <= small) return ReductionCost{0, *first / bytes_of(small)};
  const Result<double> second =
      SecondsOf(communicator, First(memory, large), kLargeRounds, clock, deadline);
  if (!second.ok()) return second.error();
  const double slope = (*second - *first) / bytes_of(large - small);
  if (slope <= 0) return ReductionCost{*first, *second / bytes_of(large)};
  return ReductionCost{std::max(0.0, *first - slope * bytes_of(small)), slope};
}

}  // namespace

int64_t BucketBytesFor(const ReductionCost& cost, int64_t total) {
  constexpr int64_t kGrain = BucketTuner::kGrain;
  const int64_t all = std::max(kGrain, (total + kGrain - 1) / kGrain * kGrain);
  if (cost.seconds_per_byte <= 0) return all;
  const double best =
      std::sqrt(cost.start_seconds * static_cast<double>(total) / cost.seconds_per_byte);
  const double grains = std::ceil(best / static_cast<double>(kGrain));
  return std::clamp(static_cast<int64_t>(std::min(grains, 1e9)) * kGrain, kGrain, all);
}

Result<std::optional<int64_t>> BucketTuner::Choose(Communicator& communicator, Elements memory,
                                                   const Clock& clock, Deadline deadline) {
  pending_ = 0;
  if (chosen_ > 0) return std::optional(static_cast<int64_t>(chosen_) * kGrain);
  if (communicator.size() == 1) return std::optional<int64_t>();
  const auto begin = clock.Now();
  const Result<ReductionCost> cost = Measure(communicator, memory, clock, deadline);
  if (!cost.ok()) return cost.error().WithContext("measuring how large buckets should be");
  const int64_t bytes = BucketBytesFor(*cost, static_cast<int64_t>(memory.bytes()));
  pending_ = static_cast<float>(bytes / kGrain);
  LogInfo("Chose the size of buckets",
          {{"kib", bytes >> 10},
           {"start_us", std::llround(cost->start_seconds * 1e6)},
           {"us_per_mib", std::llround(cost->seconds_per_byte * (1 << 20) * 1e6)},
           {"millis",
            std::chrono::duration_cast<std::chrono::milliseconds>(clock.Now() - begin).count()}});
  return std::optional(bytes);
}

void BucketTuner::Applied() {
  if (pending_ > 0) chosen_ = pending_;
}

}  // namespace ringmaster::trainer
