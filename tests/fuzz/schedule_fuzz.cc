// Fuzzes the parser of membership schedules: any bytes must give an error message or a consistent
// schedule.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/trainer/world_sources/static/membership_schedule.h"

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  namespace trainer = ringmaster::trainer;
  const auto schedule =
      trainer::ParseMembershipSchedule({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!schedule.ok()) {
    Require(schedule.error().message.find("fuzz") != std::string::npos);
    return 0;
  }
  int64_t next = 1;
  ringmaster::control::Epoch epoch;
  for (const trainer::ScheduledRun& run : schedule->runs) {
    Require(run.first == next && run.last >= run.first && epoch < run.epoch &&
            !run.members.empty());
    for (const std::string& member : run.members) {
      Require(std::count(schedule->members.begin(), schedule->members.end(), member) == 1);
    }
    next = run.last + 1;
    epoch = run.epoch;
  }
  Require(next == schedule->steps() + 1);
  return 0;
}
