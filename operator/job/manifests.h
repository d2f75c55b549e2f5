#pragma once

// What all objects of a job have in common: owner, labels, and the words for both. Used by pods,
// services and the reconciler's Secret.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Sets metadata's owner reference (controller, blockOwnerDeletion) and the labels of every object
// of the job. Labels already there stay; ours win.
void Own(nlohmann::json& object, const api::TrainingJob& job);

}  // namespace ringmaster::job
