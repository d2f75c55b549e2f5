#pragma once

// Builds the manifests of a job's two Services: the headless one for the workers' host names, and
// the launcher's, whose ClusterIP the agents connect to. Pure functions.

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Builds the Service "<job>" with a DNS name for each worker, ready or not, for users' scripts.
nlohmann::json WorkerService(const api::TrainingJob& job);

// Builds the Service "<job>-launcher", which selects only the launcher Pod of `term`, ready or not.
// Its annotations contain the seed's id and the name of the installation that manages the job.
nlohmann::json LauncherService(const api::TrainingJob& job, const std::string& seed_id,
                               const std::string& installation, int64_t term);

// Returns the merge patch that makes the launcher's Service select the Pod of another term.
nlohmann::json LauncherServiceTermPatch(int64_t term);

// Returns the merge patch that sets the installation that manages the job.
nlohmann::json LauncherServiceOwnerPatch(const std::string& installation);

}  // namespace ringmaster::job
