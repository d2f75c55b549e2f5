#pragma once

// An interface for reading the time, so that tests can control it. SystemClock is the real
// implementation; tests/fakes/fake_clock.h is the fake one. Use Now() for limits and delays, and
// WallNow() only for messages and for the API's timestamps.

#include <chrono>
#include <string>

namespace ringmaster {

class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using WallTime = std::chrono::system_clock::time_point;

  virtual ~Clock() = default;
  virtual Time Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

// Thread-safe, stateless.
class SystemClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

// Formats a time as RFC 3339 in UTC, as Kubernetes does: with whole seconds
// ("2026-11-20T10:00:00Z") or microseconds (MicroTime).
std::string FormatTime(Clock::WallTime time);
std::string FormatMicroTime(Clock::WallTime time);

}  // namespace ringmaster
