#pragma once

// Translates the API server's refusal of a Pod for the author of the TrainingJob: it replaces the
// Pod's fields with those of the spec, and adds the field if the server does not name one. Pure
// functions, used by the actor for conditions and events.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Returns the message in terms of the job's spec. `message`: the server's refusal of `pod`. The Pod
// was built from `spec` (pods.h), whose path is `root`.
std::string InTermsOfSpec(const std::string& message, const nlohmann::json& pod,
                          const api::TrainingJobSpec& spec, const std::string& root = "spec");

}  // namespace ringmaster::job
