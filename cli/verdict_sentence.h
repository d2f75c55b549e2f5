#pragma once

// Writes the first lines of `kubectl trainingjob status`: whether a job trains, and if not, why and
// what to do. Pure functions.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::cli {

struct Explanation {
  bool training = false;
  std::string sentence{};           // contains untrusted text: pass it through Printable()
  std::string reason{};             // the reason of the condition that explains the state, or empty
  std::string meaning{};            // what the reason means, and what to do
  std::vector<std::string> also{};  // other problems that users may have to fix
};

// Explains whether a job trains, and if not, why. `job` was decoded from the JSON `written`.
Explanation ExplainJob(const api::TrainingJob& job, const nlohmann::json& written);

// Returns the text in reasons.h for a reason or for a cause of a recovery; empty for others.
std::string_view MeaningOfReason(std::string_view reason);
std::string_view MeaningOfCause(std::string_view cause);

}  // namespace ringmaster::cli
