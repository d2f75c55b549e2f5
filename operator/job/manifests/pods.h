#pragma once

// Builds the manifests of a job's Pods from the job, its credentials and the addresses of its
// Services. The builders start from the user's template and add the fields that Ringmaster needs.
// Without a template, the Pods comply with Pod Security "restricted". The builders accept only
// specs that judgement.h has validated. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/control/launch_spec.h"
#include "operator/api/types.h"
#include "operator/job/admission/judgement.h"
#include "operator/job/credentials/credentials.h"

namespace ringmaster::job {

// Names of a Pod's volumes that come from spec.checkpoint and spec.dataCache.
inline constexpr char kCheckpointVolume[] = "ringmaster-checkpoints";
inline constexpr char kDataSourceVolume[] = "ringmaster-data-source";
inline constexpr char kDataVolume[] = "ringmaster-data";

// The input for every Pod of a job. The references must outlive the call.
struct PodContext {
  const JudgedJob& judged;
  const Credentials& credentials;
  const std::string& revision;  // revision of the run's spec (run_pin.h)
  std::string tools_image{};    // image with the programs (injection.h); empty: none

  const api::TrainingJob& job() const { return judged.job(); }
};

// Builds the common part of all worker Pods of a run, so that the template is parsed only once.
// WorkerPod() builds each Pod from it.
nlohmann::json CommonWorkerPod(const PodContext& context, const std::string& launcher_address);
// Makes the scheduler use these nodes only if the Pod fits on no other node.
void AvoidNodes(nlohmann::json& pod, const std::vector<std::string>& nodes);
nlohmann::json WorkerPod(const nlohmann::json& common, const std::string& job_name, int index);
nlohmann::json LauncherPod(const PodContext& context, int64_t term);

// Describes the user's program for the agents and the launcher.
control::LaunchSpec LaunchSpecOf(const api::TrainingJobSpec& spec);

}  // namespace ringmaster::job
