#pragma once

// `kubectl trainingjob doctor` checks whether the cluster is ready for TrainingJobs, as far as the
// user's permissions allow. The command creates no objects.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/kubectl.h"

namespace ringmaster::cli {

struct Check {
  enum class Result { kOk, kWarn, kFail };
  std::string name{};
  Result result = Result::kOk;
  std::string message{};  // the result, and what to do if the check fails
};

std::vector<Check> RunChecks(const Kubectl& kubectl);

bool AnyFailed(const std::vector<Check>& checks);
std::string ChecksText(const std::vector<Check>& checks);
nlohmann::json ChecksJson(const std::vector<Check>& checks);

}  // namespace ringmaster::cli
