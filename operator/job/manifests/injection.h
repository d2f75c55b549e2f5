#pragma once

// Brings Ringmaster's programs into an image that lacks them: an init container copies them
// into a volume of the Pod (worker/tools). Pure.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// The operator's own settings.
struct Injection {
  std::string image{};                    // that has the programs; empty: nothing is injected
  std::vector<std::string> own_images{};  // prefixes of images that have them already
};

inline constexpr char kToolsName[] = "ringmaster-tools";  // of volume and init container

// Where the job asks for it, or an image of its launcher or workers lacks them: the init container,
// the volume, and the command of `container` from it. `spec` is a Pod's, and has the container,
// complete but for that. Into all Pods of a job or none: mpirun finds the programs at one place.
void Inject(const Injection& injection, const api::TrainingJobSpec& job, nlohmann::json& spec,
            nlohmann::json& container);

}  // namespace ringmaster::job
