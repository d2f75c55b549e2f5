#pragma once

// Helpers that build the manifests of a job's Pods: get-or-create for fields, variables, volumes
// and a worker's host settings. Used by pods.cc. A returned reference is valid until the list or
// object that contains it changes.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::job {

// The object or list at `field`; creates it if it does not exist.
nlohmann::json& ObjectAt(nlohmann::json& parent, const char* field);
nlohmann::json& ListAt(nlohmann::json& parent, const char* field);

// Sets `field` if it is absent or null.
void Default(nlohmann::json& object, const char* field, nlohmann::json value);

// Returns the container of this name in a Pod's spec; null if none.
const nlohmann::json* FindContainer(const nlohmann::json& spec, std::string_view name);
// The container of this name, added to the Pod's spec if it is not there.
nlohmann::json& ManagedContainer(nlohmann::json& spec, const char* name);

// An empty folder at `path`, unless the template mounts something there itself.
void AddScratch(nlohmann::json& spec, nlohmann::json& container, const char* volume,
                const char* path, nlohmann::json source);

// The kubelet expands $(NAME) in values and takes "$$" for "$": doubled, every "$" stays as it is.
void AddVariable(nlohmann::json& container, const char* name, const std::string& value);
void AddFieldVariable(nlohmann::json& container, const char* name, const char* field);

// The user's volume at its fixed path, and what the trainer's flags take from it.
void AddCheckpoints(const api::CheckpointSpec& checkpoint, nlohmann::json& spec,
                    nlohmann::json& container);

// The user's volume, and the memory volume that the agent fills from it.
void AddDataCache(const api::DataCacheSpec& cache, nlohmann::json& spec, nlohmann::json& container);

// The host access of a worker, as far as its profile allows it.
void AddHostReach(const api::TrainingJobSpec& job, nlohmann::json& spec, nlohmann::json& container);

}  // namespace ringmaster::job
