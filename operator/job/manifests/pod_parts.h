#pragma once

// Helpers that build the manifests of a job's Pods. They get or create fields, and add variables,
// volumes and a worker's host settings. Used by pods.cc. A returned reference is valid until the
// list or object that contains it changes.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// Returns the object or list at `field`. Creates it if it does not exist.
nlohmann::json& ObjectAt(nlohmann::json& parent, const char* field);
nlohmann::json& ListAt(nlohmann::json& parent, const char* field);

// Sets `field` if it is absent or null.
void Default(nlohmann::json& object, const char* field, nlohmann::json value);

// Returns the container of this name in a Pod's spec, or null if there is none.
const nlohmann::json* FindContainer(const nlohmann::json& spec, std::string_view name);
// Returns the container of this name. Adds it to the Pod's spec if it does not exist.
nlohmann::json& ManagedContainer(nlohmann::json& spec, const char* name);

// Adds an emptyDir volume at `path`, unless the template mounts a volume there.
void AddScratch(nlohmann::json& spec, nlohmann::json& container, const char* volume,
                const char* path, nlohmann::json source);

// Adds a variable. Doubles every "$" of the value, because the kubelet would expand $(NAME).
void AddVariable(nlohmann::json& container, const char* name, const std::string& value);
void AddFieldVariable(nlohmann::json& container, const char* name, const char* field);

// Mounts the user's checkpoint volume at its fixed path, and adds the trainer's variables for it.
void AddCheckpoints(const api::CheckpointSpec& checkpoint, nlohmann::json& spec,
                    nlohmann::json& container);

// Mounts the user's data volume and the memory volume into which the agent copies the data.
void AddDataCache(const api::DataCacheSpec& cache, nlohmann::json& spec, nlohmann::json& container);

// Adds the host access of the job's workers, as its spec requests (network, privileges, RDMA).
void AddHostReach(const api::TrainingJobSpec& job, nlohmann::json& spec, nlohmann::json& container);

}  // namespace ringmaster::job
