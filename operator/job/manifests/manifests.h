#pragma once

// Adds the common parts of all objects of a job (owner reference and labels) and the common parts
// of its Pods. Used for Pods, Services and the reconciler's Secret.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Sets the owner reference (controller, blockOwnerDeletion) and Ringmaster's labels in the object's
// metadata. Keeps other labels, and overwrites labels with the same keys.
void Own(nlohmann::json& object, const api::TrainingJob& job);

// Parses a template or volume of the spec. Returns an empty object if the text is empty.
nlohmann::json ParseTemplate(const std::string& text);

// Makes a Pod's spec, including all sidecars, comply with Pod Security "restricted", because the
// namespace may enforce it for all containers. Keeps exceptions that the job's rules allow, and
// sets no field that contradicts a privileged container or a container that runs as root.
void RestrictPod(nlohmann::json& spec);

}  // namespace ringmaster::job
