#pragma once

// Flattens a spec into pairs of path and value. Pure functions.

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ringmaster::cli {

// Paths are relative to spec, in the usual notation: worker.env[A].value,
// worker.nodeSelector[b.c/d]. List items are identified by name or mountPath; any other list is one
// value. A value that a template sets instead of an API field gets the path of that field.
std::map<std::string, nlohmann::json> FieldsOf(const nlohmann::json& spec);

// Formats a value as one line: texts without quotes, lists with commas.
std::string ValueText(const nlohmann::json& value);

}  // namespace ringmaster::cli
