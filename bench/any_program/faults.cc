#include "bench/any_program/faults.h"

#include <array>
#include <cstddef>
#include <random>
#include <sstream>
#include <utility>

namespace ringmaster::any_program {
namespace {

constexpr std::array<std::pair<FaultKind, const char*>, 5> kNames{{
    {FaultKind::kKillRank, "kill-rank"},
    {FaultKind::kKillProgram, "kill-program"},
    {FaultKind::kKillAgent, "kill-agent"},
    {FaultKind::kCut, "cut"},
    {FaultKind::kKillLauncher, "kill-launcher"},
}};

constexpr uint64_t kShortestCalm = 2000;  // milliseconds
constexpr uint64_t kLongestCalm = 10'000;

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
    const std::size_t before = kinds.size();
    for (const auto& [kind, name] : kNames) {
      if (word == name) kinds.push_back(kind);
    }
    if (kinds.size() == before) {
      return Error{ErrorKind::kInvalid, "'" + word + "' is no fault; there are " + AllFaults()};
    }
  }
  if (kinds.empty()) return Error{ErrorKind::kInvalid, "no fault is named"};
  return kinds;
}

// The engine's own numbers are the same everywhere; the standard's distributions are not.
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
