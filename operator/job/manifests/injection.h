#pragma once

// Adds Ringmaster's programs to Pods whose image lacks them. Either an init container copies them
// into a volume of the Pod, or the volume is their image (worker/tools). Pure functions.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// The operator's own settings.
struct Injection {
  std::string image{};                    // that contains the programs; empty: none are injected
  std::vector<std::string> own_images{};  // prefixes of images that contain them already
};

// The image from which a run that starts now takes the programs, for all of its Pods, because
// mpirun expects them at one place: set if the job requests it, or if an image of its launcher or
// workers lacks them. Empty if no Pod needs them.
std::string ToolsImageOf(const Injection& injection, const api::TrainingJobSpec& job);
// The same of a run that began with `pinned`: that one, whatever the operator has now, or its Pods
// would be of two releases. A pin is as untrusted as a spec, so of the operator's own repository
// alone.
std::string ToolsImageOfRun(const std::string& pinned, const Injection& injection,
                            const api::TrainingJobSpec& job);

// The volume, the init container that fills it or none by `mode`, and the command of `container`
// from it; nothing where `tools_image` is empty. `spec` is a Pod's, and has the container, complete
// but for that.
void Inject(const std::string& tools_image, api::InjectMode mode, nlohmann::json& spec,
            nlohmann::json& container);

}  // namespace ringmaster::job
