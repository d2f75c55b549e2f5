#pragma once

// Checks the volumes of a job: it allows those of Pod Security "restricted" without API
// credentials, and host paths that the job's rules list. container_policy.h checks where containers
// mount them. Pure functions, used by template_policy.cc.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// One of a template's volumes. `may_use_token`: the Pod runs as a service account that the rules
// list, whose token may be projected.
void CheckVolume(const nlohmann::json& volume, const std::string& path, bool may_use_token,
                 const JobRules& rules, Findings& found);

// Whether nothing below a finished Pod's mount can be written, what is mounted there included, and
// nothing that the host mounts there later is seen. IfPossible, because kernels before 5.12 do not
// support it.
bool IsReadOnlyMount(const nlohmann::json& mount);

// Makes the host path mounts in a Pod's spec recursively read-only.
void RestrictHostPathMounts(nlohmann::json& spec);

// A container's mounts, of a Pod with this spec: one of a host's path is read-only, with all that
// is below it.
void CheckHostPathMounts(const nlohmann::json& spec, const nlohmann::json& container,
                         const std::string& path, Findings& found);

// spec.checkpoint.volume: one volume source, which can be written.
void CheckCheckpointVolume(const nlohmann::json& volume, const std::string& path, Findings& found);

// spec.dataCache.from: one volume source, which holds something when a Pod starts.
void CheckDataSource(const nlohmann::json& volume, const std::string& path, Findings& found);

}  // namespace ringmaster::job
