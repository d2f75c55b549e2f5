#pragma once

// The API server's refusal of a Pod in the words of who wrote the TrainingJob: fields under the
// path at which a person wrote them, and the field where the server's sentence names none. Pure;
// used by the actor for conditions and events.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// `message` is what the server said of `pod`, which was made from `spec` (pods.h), which stands at
// the path `root`.
std::string InWordsOfTheJob(const std::string& message, const nlohmann::json& pod,
                            const api::TrainingJobSpec& spec, const std::string& root = "spec");

}  // namespace ringmaster::job
