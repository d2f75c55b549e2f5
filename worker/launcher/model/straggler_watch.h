#pragma once

// Finds ranks that are much slower than their peers in their own part of a step: data, computation
// and update, excluding waits for others. A rank becomes a straggler when this time has been above
// 1.5 times the world's median for 10 s (and over a millisecond above it, to ignore noise). It
// stops being a straggler below 1.25 times the median. Does no I/O; owned by a job.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "worker/launcher/model/next_world.h"

namespace ringmaster::launcher {

class StragglerWatch {
 public:
  using Time = Clock::Time;

  static constexpr double kSlow = 1.5;
  static constexpr double kRecovered = 1.25;
  static constexpr double kNoiseMicros = 1000;
  static constexpr std::chrono::seconds kFor{10};

  // Begins a new world. Keeps the times of members that were in the previous world.
  void Begin(const std::vector<control::Member>& members);
  // `own_micros`: the time of the rank's own part of `step`. REQUIRES: `member` is in the world.
  void Report(Time now, const control::Member& member, int64_t step, int64_t own_micros);

  struct Slow {
    MemberId id;
    double own_micros = 0;
    double median_micros = 0;
    Time since{};
  };
  // Slowest first.
  std::vector<Slow> Stragglers(Time now) const;
  // Returns the smoothed time of a member; nullopt before its first step.
  std::optional<double> OwnMicros(const control::Member& member) const;

 private:
  struct State {
    int64_t step = -1;
    std::optional<double> own_micros;  // smoothed
    std::optional<Time> slow_since;
  };

  // Returns the lower median of the known times; nothing if fewer than two are known.
  std::optional<double> Median() const;
  std::optional<double> RecentMedian(Time now);

  std::map<MemberId, State, std::less<>> ranks_;
  std::optional<double> median_;
  Time median_at_{};
};

}  // namespace ringmaster::launcher
