#include "common/base/clock.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace ringmaster {
namespace {

std::string Format(Clock::WallTime time, bool with_micros) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(since_epoch / 1'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 40> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (!with_micros) return std::string(date.data()) + "Z";
  std::array<char, 16> micros{};
  std::snprintf(micros.data(), micros.size(), ".%06lldZ",
                static_cast<long long>(since_epoch % 1'000'000));
  return std::string(date.data()) + micros.data();
}

}  // namespace

std::string FormatTime(Clock::WallTime time) { return Format(time, false); }
std::string FormatMicroTime(Clock::WallTime time) { return Format(time, true); }

}  // namespace ringmaster
