#include "worker/audit/compare.h"

#include <algorithm>
#include <string>

#include "common/base/count_text.h"
#include "common/base/hex.h"
#include "worker/audit/conclusion.h"

namespace ringmaster::audit {
Findings Compare(const Report& job, const Report& other) {
  Findings findings;
  const std::size_t both = std::min(job.states.size(), other.states.size());
  for (std::size_t step = 0; step < both; ++step) {
    const auto& state = job.states[step];
    const auto& replayed = other.states[step];
    const std::string name = "after step " + std::to_string(step);
    if (!state || !replayed) {
      Note(findings, &Findings::unknown, "no log has the parameters " + name);
    } else if (*state != *replayed) {
      Note(findings, &Findings::disagreeing,
           "other parameters " + name + ": checksum " + HexOf(*state) + ", and in the other run " +
               HexOf(*replayed));
    }
  }
  if (job.steps != other.steps) {
    Note(findings, &Findings::disagreeing,
         CountText(job.steps, "step", "is", "are") + " committed, and in the other run " +
             std::to_string(other.steps),
         std::abs(job.steps - other.steps));
  }
  return findings;
}

}  // namespace ringmaster::audit
