#include "bench/chaos/schedule.h"

#include <array>
#include <cstddef>
#include <random>
#include <sstream>
#include <utility>

namespace ringmaster::chaos {
namespace {

constexpr std::array<std::pair<FaultKind, const char*>, 7> kNames{{
    {FaultKind::kKillRank, "kill-rank"},
    {FaultKind::kHangRank, "hang-rank"},
    {FaultKind::kKillAgent, "kill-agent"},
    {FaultKind::kStop, "stop"},
    {FaultKind::kCut, "cut"},
    {FaultKind::kCutIn, "cut-in"},
    {FaultKind::kLauncher, "launcher"},
}};

}  // namespace

const char* ToString(FaultKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "";
}

std::string AllFaults() {
  std::string all;
  for (const auto& [kind, name] : kNames) all += (all.empty() ? "" : ",") + std::string(name);
  return all;
}

Result<std::vector<FaultKind>> ParseFaults(const std::string& comma_separated) {
  std::vector<FaultKind> kinds;
  std::istringstream words(comma_separated);
  for (std::string word; std::getline(words, word, ',');) {
    bool found = false;
    for (const auto& [kind, name] : kNames) {
      if (word != name) continue;
      kinds.push_back(kind);
      found = true;
    }
    if (!found) {
      return Error{ErrorKind::kInvalid, "'" + word + "' is no fault; there are " + AllFaults()};
    }
  }
  if (kinds.empty()) return Error{ErrorKind::kInvalid, "no fault is named"};
  return kinds;
}

bool IsSilent(FaultKind kind) {
  return kind == FaultKind::kHangRank || kind == FaultKind::kStop || kind == FaultKind::kCut ||
         kind == FaultKind::kCutIn;
}

// The engine's own numbers are the same everywhere; the standard's distributions are not.
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
