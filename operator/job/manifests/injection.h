#pragma once

// Adds Ringmaster's programs to Pods whose image does not contain them. Either an init container
// copies them into a volume, or an image volume contains them (worker/tools). Pure functions.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// The operator's settings for injection.
struct Injection {
  std::string image{};                    // image with the programs; empty: none are injected
  std::vector<std::string> own_images{};  // prefixes of images that already contain them
};

// Returns the image whose programs are injected into all Pods of a run that starts now. All Pods
// get them, because mpirun expects them at the same path everywhere. Returns "" if no Pod needs
// them: the job does not request them, and the images of its launcher and workers contain them.
std::string ToolsImageOf(const Injection& injection, const api::TrainingJobSpec& job);
// Returns the image for a run: `pinned`, with which the run started, even after an upgrade of the
// operator, so that all Pods of the run have the same release. A pin is untrusted, like a
// spec, so `pinned` is used only if it is from the repository of the operator's image.
std::string ToolsImageOfRun(const std::string& pinned, const Injection& injection,
                            const api::TrainingJobSpec& job);

// Adds to a Pod's `spec` the volume and, depending on `mode`, an init container that fills it.
// Makes `container` run its command from the volume. Does nothing if `tools_image` is empty.
// `container` must be part of `spec`, and its other fields must already be set.
void Inject(const std::string& tools_image, api::InjectMode mode, nlohmann::json& spec,
            nlohmann::json& container);

}  // namespace ringmaster::job
