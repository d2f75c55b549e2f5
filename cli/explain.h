#pragma once

// `kubectl trainingjob explain JOB` shows which fields of a job's run come from the job, from its
// profile or from defaults, and which values Ringmaster resolved. It reads the run's spec from its
// ControllerRevision. If the user may not read the ControllerRevision, the command merges the job
// and the job's profile, as the operator does.

#include <string>

#include <nlohmann/json.hpp>

#include "cli/kubectl.h"
#include "common/base/result.h"

namespace ringmaster::cli {

struct ExplainObjects {
  nlohmann::json job;
  nlohmann::json pin;      // the run's ControllerRevision, or null
  nlohmann::json profile;  // the job's LocalTrainingProfile, or null
  std::string unread{};    // why `pin` or `profile` could not be read; empty: no error
};

Result<ExplainObjects> ReadExplainObjects(const Kubectl& kubectl, const std::string& job);

// Returns JSON for scripts. ExplainText() formats it. Pure functions.
Result<nlohmann::json> ExplainJson(const ExplainObjects& objects);
std::string ExplainText(const nlohmann::json& explained);

}  // namespace ringmaster::cli
