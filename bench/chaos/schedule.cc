#include "bench/chaos/schedule.h"

#include <cstddef>
#include <random>

#include "bench/fault_names.h"

namespace ringmaster::chaos {
namespace {

constexpr bench::FaultNames<FaultKind, 7> kNames{{{
    {FaultKind::kKillRank, "kill-rank"},
    {FaultKind::kHangRank, "hang-rank"},
    {FaultKind::kKillAgent, "kill-agent"},
    {FaultKind::kStop, "stop"},
    {FaultKind::kCut, "cut"},
    {FaultKind::kCutIn, "cut-in"},
    {FaultKind::kLauncher, "launcher"},
}}};

}  // namespace

const char* ToString(FaultKind kind) { return kNames.Of(kind); }

std::string AllFaults() { return kNames.All(); }

Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated) {
  return kNames.Parse(comma_separated);
}

bool IsSilent(FaultKind kind) {
  return kind == FaultKind::kHangRank || kind == FaultKind::kStop || kind == FaultKind::kCut ||
         kind == FaultKind::kCutIn;
}

// Uses the engine's numbers directly, because distributions differ between standard libraries.
std::vector<Fault> MakeSchedule(const std::vector<FaultKind>& kinds, int workers, int count,
                                uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Fault> schedule;
  for (int i = 0; i < count; ++i) {
    const FaultKind kind = kinds[static_cast<std::size_t>(random() % kinds.size())];
    const int worker = static_cast<int>(random() % static_cast<uint64_t>(workers));
    schedule.push_back({kind, worker});
  }
  return schedule;
}

}  // namespace ringmaster::chaos
