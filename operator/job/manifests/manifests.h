#pragma once

// The common parts of all objects of a job: owner reference and labels, and the common parts of its
// Pods. Used for Pods, Services and the reconciler's Secret.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Sets metadata's owner reference (controller, blockOwnerDeletion) and the labels of every object
// of the job. Labels already there stay; ours win.
void Own(nlohmann::json& object, const api::TrainingJob& job);

// A template or volume of the spec; an empty object where there is none.
nlohmann::json ParseTemplate(const std::string& text);

// Completes a Pod's spec to the profile "restricted", for every container alike: the namespace may
// enforce it on sidecars too. What the job's rules let through stays: a privileged container
// cannot be kept from gaining privileges, and one that runs as root cannot be kept from that.
void RestrictPod(nlohmann::json& spec);

}  // namespace ringmaster::job
