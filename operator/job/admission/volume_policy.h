#pragma once

// Checks the volumes of a job. It allows the types of Pod Security "restricted" without API
// credentials, and host paths that the job's rules list. container_policy.h checks where containers
// mount them. Pure functions, used by template_policy.cc.

#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/admission/findings.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

// Checks one volume of a template. `may_use_token`: whether the Pod may mount a token, because it
// runs as a service account that the rules allow.
void CheckVolume(const nlohmann::json& volume, const std::string& path, bool may_use_token,
                 const JobRules& rules, Findings& found);

// Returns true if a Pod's mount and all mounts below it are read-only, and if later mounts of the
// host do not appear in it. recursiveReadOnly must be IfPossible or Enabled; IfPossible is enough,
// because kernels before 5.12 have no such mounts.
bool IsReadOnlyMount(const nlohmann::json& mount);

// Makes the host path mounts in a Pod's spec recursively read-only.
void RestrictHostPathMounts(nlohmann::json& spec);

// Returns the names of the volumes in a Pod's spec that are host paths.
std::set<std::string> HostPathVolumes(const nlohmann::json& spec);

// Checks that a container mounts the volumes `host_paths` only read-only, with all mounts below
// them.
void CheckHostPathMounts(const nlohmann::json& container, const std::set<std::string>& host_paths,
                         const std::string& path, Findings& found);

// Checks spec.checkpoint.volume, which must be one writable volume source.
void CheckCheckpointVolume(const nlohmann::json& volume, const std::string& path, Findings& found);

// Checks spec.dataCache.from, which must be one volume source that can contain data at Pod start.
void CheckDataSource(const nlohmann::json& volume, const std::string& path, Findings& found);

}  // namespace ringmaster::job
