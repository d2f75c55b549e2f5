#pragma once

// Flattens a spec into pairs of path and value. Pure functions.

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ringmaster::cli {

// Paths as people write them, below spec: worker.env[A].value, worker.nodeSelector[b.c/d]. Items of
// lists go by their name or mountPath; lists of anything else are one value. A value that a
// template sets instead of a field of the API has that field's name.
std::map<std::string, nlohmann::json> FieldsOf(const nlohmann::json& spec);

// One line: texts without quotes, lists with commas.
std::string ValueText(const nlohmann::json& value);

}  // namespace ringmaster::cli
