#pragma once

// Builds the manifests of a job's two Services: the headless one for the workers' host names, and
// the launcher's, whose ClusterIP the agents connect to. Pure functions.

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// "<job>": one DNS name per worker, also before it is ready; for users' own scripts.
nlohmann::json WorkerService(const api::TrainingJob& job);

// "<job>-launcher": leads to the launcher Pod of `term` alone, also before it is ready. Carries the
// seed's id, and the name of the installation that has the job.
nlohmann::json LauncherService(const api::TrainingJob& job, const std::string& seed_id,
                               const std::string& installation, int64_t term);

// Merge patch that points the launcher's Service to another term.
nlohmann::json LauncherServiceTermPatch(int64_t term);

// Merge patch that names the installation that has the job.
nlohmann::json LauncherServiceOwnerPatch(const std::string& installation);

}  // namespace ringmaster::job
