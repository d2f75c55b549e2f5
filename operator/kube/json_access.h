#pragma once

// Checked access to JSON from a server or a user: a null, a missing field or a wrong type never
// throws, and numbers are never silently narrowed. null counts as absent, because Go servers send
// null for empty lists. Paths are field names, outermost first: GetString(pod, {"status",
// "podIP"}). The Get functions return the default if the value is absent or has another type. To
// read whole structs, describe their fields instead (common/json/fields.h).

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster::kube {

using JsonPath = std::initializer_list<std::string_view>;

// The value at the path; null when any part is absent, null or no object. Lives as long as `json`.
const nlohmann::json* Find(const nlohmann::json& json, JsonPath path);

std::string GetString(const nlohmann::json& json, JsonPath path, std::string_view otherwise = {});
bool GetBool(const nlohmann::json& json, JsonPath path, bool otherwise = false);
// Integers only: 1.5, "1" and values out of range count as another type.
std::optional<int64_t> GetInt64(const nlohmann::json& json, JsonPath path);
std::optional<int32_t> GetInt32(const nlohmann::json& json, JsonPath path);
// A quantity that is a whole number, written as one or as text, as those of extended resources are;
// unset for any other way to write one.
std::optional<int64_t> ReadWholeQuantity(const nlohmann::json& quantity);
// The array at the path, or an empty one. Lives as long as `json`.
const nlohmann::json& GetArray(const nlohmann::json& json, JsonPath path);
// Entries whose value is a string; labels and annotations.
std::map<std::string, std::string> GetStringMap(const nlohmann::json& json, JsonPath path);

// The JSON merge patch that turns `from` into `to`: an empty object when they are equal. Lists are
// replaced whole.
nlohmann::json MakeMergePatch(const nlohmann::json& from, const nlohmann::json& to);

// ParseJson (common/json/json.h) for the API server's objects: skips metadata.managedFields, which
// is unused and a third of many objects, without building it.
Result<nlohmann::json> ParseServerJson(std::string_view text);
// The object that the beginning of a watch event is about, as far as known: metadata may be in the
// part that was cut off.
struct EventBeginning {
  std::string ns;
  std::string name;
};
EventBeginning ReadEventBeginning(std::string_view text);

}  // namespace ringmaster::kube
