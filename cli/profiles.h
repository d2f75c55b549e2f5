#pragma once

// `kubectl trainingjob profiles` lists the TrainingProfiles that jobs of a namespace may name. It
// reads the namespace's LocalTrainingProfiles.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/kubectl.h"
#include "common/base/result.h"

namespace ringmaster::cli {

inline constexpr char kLocalProfiles[] = "localtrainingprofiles.ringmaster.dev";

Result<nlohmann::json> ReadLocalProfiles(const Kubectl& kubectl);

// Return the output for `list`, a list from the API server. Pure functions.
std::string ProfilesText(const nlohmann::json& list);
nlohmann::json ProfilesJson(const nlohmann::json& list);

}  // namespace ringmaster::cli
