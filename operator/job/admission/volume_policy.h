#pragma once

// Which volumes a job may bring: those of the profile "restricted", and no API credentials in them.
// Where containers mount them is judged by container_policy.h. Pure; used by template_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"

namespace ringmaster::job {

// One of a template's volumes. `may_use_token`: the Pod runs as a service account that the
// namespace's rules list, whose token may be projected.
void CheckVolume(const nlohmann::json& volume, const std::string& path, bool may_use_token,
                 Findings& found);

// spec.checkpoint.volume: one volume source, which can be written.
void CheckCheckpointVolume(const nlohmann::json& volume, const std::string& path, Findings& found);

// spec.dataCache.from: one volume source, which holds something when a Pod starts.
void CheckDataSource(const nlohmann::json& volume, const std::string& path, Findings& found);

}  // namespace ringmaster::job
