#pragma once

// `kubectl trainingjob status JOB` shows on one screen whether a job trains, and if not, why. Pure
// functions compute the text.

#include <string>

#include <nlohmann/json.hpp>

#include "cli/kubectl.h"
#include "cli/terminal.h"
#include "common/base/result.h"

namespace ringmaster::cli {

struct JobObjects {
  nlohmann::json job;
  nlohmann::json pods;    // a list from the API server, or null if it could not be read
  nlohmann::json events;  // a list from the API server, or null if it could not be read
  std::string unread{};   // why `pods` or `events` could not be read, as text
};

Result<std::string> StatusText(const JobObjects& objects, Time now);
// Returns the same data as JSON. The names and meanings of its fields are stable.
Result<nlohmann::json> StatusJson(const JobObjects& objects);

Result<JobObjects> ReadJobObjects(const Kubectl& kubectl, const std::string& job);

}  // namespace ringmaster::cli
