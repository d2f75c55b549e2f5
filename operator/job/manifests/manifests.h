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

// A template or volume of the spec; an empty object if there is none.
nlohmann::json ParseTemplate(const std::string& text);

// Completes a Pod's spec to Pod Security "restricted", for all containers: the namespace may
// enforce it on sidecars too. Exceptions that the job's rules allow remain: a privileged container
// can always gain privileges, and one that runs as root cannot be denied root.
void RestrictPod(nlohmann::json& spec);

}  // namespace ringmaster::job
