#pragma once

// The fields of a spec that set fields of a Pod template: spec.worker.{gpus, resources, env, …},
// spec.imagePullSecrets and spec.priorityClassName. The decoder writes them into the templates, so
// all other code reads only the templates. For messages, TrainingJobSpec::typed_fields maps paths
// in a template to these fields.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::api {

// Writes the typed fields of `written`, the JSON from which `spec` was decoded, into the templates
// of `spec`. If a template already sets the same field, the function does not write the typed field
// and adds an entry to spec.problems.
void LowerTypedFields(const nlohmann::json& written, TrainingJobSpec& spec);

// Returns the template paths to which the spec's field `path` is written, with containers by name:
// worker.env[A] becomes worker.template.spec.containers[worker].env[A], and priorityClassName has a
// path in both templates. Other paths are returned unchanged. Paths are relative to `spec`.
std::vector<std::string> PathsInTemplates(const std::string& path);

// Returns the typed fields of `first`, then those of `other` that set other template fields.
std::vector<TypedField> TypedFieldsOf(const TrainingJobSpec& first, const TrainingJobSpec& other);

// Returns true if `path` names a field inside the field that `outer` names.
bool IsBelow(std::string_view path, std::string_view outer);

// Translates a template path, such as spec.worker.template.spec.containers[0].env[1].name, to the
// path in the user's job, spec.worker.env[1].name. Other paths are returned unchanged.
std::string PathAsWritten(const std::vector<TypedField>& fields, const std::string& path);

}  // namespace ringmaster::api
