#pragma once

// `kubectl trainingjob explain JOB`: from which profile a job's run was merged, which field came
// from where, and what was resolved that neither says. The text of the run is the operator's own
// (its ControllerRevision); where a user may not read it, the merge is computed here as the
// operator does it.

#include <string>

#include <nlohmann/json.hpp>

#include "cli/kubectl.h"
#include "common/base/result.h"

namespace ringmaster::cli {

struct ExplainObjects {
  nlohmann::json job;
  nlohmann::json pin;      // the ControllerRevision, or null
  nlohmann::json profile;  // the LocalTrainingProfile, or null
  std::string unread{};    // why one of them is null, for people; empty: it need not be there
};

Result<ExplainObjects> ReadExplainObjects(const Kubectl& kubectl, const std::string& job);

// As JSON for scripts; text is made of it. Pure.
Result<nlohmann::json> ExplainJson(const ExplainObjects& objects);
std::string ExplainText(const nlohmann::json& explained);

}  // namespace ringmaster::cli
