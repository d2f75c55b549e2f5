#pragma once

// The fields of a spec that stand for fields of a Pod template: spec.worker.{gpus, resources, env,
// …}, spec.imagePullSecrets and spec.priorityClassName. Decoding writes them into the templates, so
// all other code reads only templates. TrainingJobSpec::typed_fields maps paths in a template to
// these fields, for messages.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/api/types.h"

namespace ringmaster::api {

// Writes the fields of `written`, the JSON from which `spec` was read, into the templates of
// `spec`. One that cannot be written, because the template sets the same, becomes one of
// spec.problems.
void LowerTypedFields(const nlohmann::json& written, TrainingJobSpec& spec);

// The path in the templates that a field of a spec is written to, with containers by name:
// worker.env[A] is worker.template.spec.containers[worker].env[A], and priorityClassName is in both
// templates. Other paths are returned unchanged. Paths are below `spec`.
std::vector<std::string> PathsInTemplates(const std::string& path);

// The fields of `first`, then those of `other` that stand for something else.
std::vector<TypedField> TypedFieldsOf(const TrainingJobSpec& first, const TrainingJobSpec& other);

// Whether a path names something inside what `outer` names.
bool IsBelow(std::string_view path, std::string_view outer);

// A path in a template as the job says it: spec.worker.env[1].name, not
// spec.worker.template.spec.containers[0].env[1].name. Other paths are returned as they are.
std::string PathAsWritten(const std::vector<TypedField>& fields, const std::string& path);

}  // namespace ringmaster::api
