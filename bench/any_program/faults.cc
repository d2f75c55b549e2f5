#include "bench/any_program/faults.h"

#include <cstddef>
#include <random>

#include "bench/fault_names.h"

namespace ringmaster::any_program {
namespace {

constexpr bench::FaultNames<FaultKind, 5> kNames{{{
    {FaultKind::kKillRank, "kill-rank"},
    {FaultKind::kKillProgram, "kill-program"},
    {FaultKind::kKillAgent, "kill-agent"},
    {FaultKind::kCut, "cut"},
    {FaultKind::kKillLauncher, "kill-launcher"},
}}};

constexpr uint64_t kShortestCalm = 500;  // milliseconds
constexpr uint64_t kLongestCalm = 3000;

}  // namespace

const char* ToString(FaultKind kind) { return kNames.Of(kind); }

std::string AllFaults() { return kNames.All(); }

Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated) {
  return kNames.Parse(comma_separated);
}

// Uses the engine's numbers directly, because distributions differ between standard libraries.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int ranks,
                                int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  std::vector<Fault> schedule;
  for (int i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = kinds[below(kinds.size())];
    fault.worker = static_cast<int>(below(static_cast<std::size_t>(workers)));
    fault.rank = static_cast<int>(below(static_cast<std::size_t>(ranks)));
    fault.after = std::chrono::milliseconds(kShortestCalm + below(kLongestCalm - kShortestCalm));
    schedule.push_back(fault);
  }
  return schedule;
}

}  // namespace ringmaster::any_program
