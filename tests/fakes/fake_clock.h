#pragma once

// A Clock that moves only when a test advances it. Now() and WallNow() move together. Thread-safe.

#include <atomic>
#include <chrono>

#include "common/base/clock.h"

namespace ringmaster {

class FakeClock final : public Clock {
 public:
  Time Now() const override { return Time(std::chrono::nanoseconds(elapsed_.load())); }
  // The wall time starts at 2026-11-20T10:00:00Z.
  WallTime WallNow() const override {
    return WallTime(std::chrono::seconds(1795168800) +
                    std::chrono::duration_cast<WallTime::duration>(
                        std::chrono::nanoseconds(elapsed_.load() - kStart)));
  }

  void Advance(std::chrono::nanoseconds by) { elapsed_ += by.count(); }

 private:
  // The first time is not zero, so that "never" (a default Time) lies in the past.
  static constexpr int64_t kStart = 1'000'000'000'000'000;
  std::atomic<int64_t> elapsed_{kStart};
};

}  // namespace ringmaster
