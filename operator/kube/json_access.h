#pragma once

// Checked access to JSON from a server or a user: a null, a missing field or a wrong type never
// throws, and numbers are never silently narrowed. null counts as absent, because Go servers send
// null for empty lists. Paths are field names, outermost first: GetString(pod, {"status",
// "podIP"}). The Get functions return the default if the value is absent or has another type. To
// decode whole structs, use common/json/fields.h instead.

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

// Returns the value at the path, or null if there is none. The pointer is valid as long as `json`.
const nlohmann::json* Find(const nlohmann::json& json, JsonPath path);

std::string GetString(const nlohmann::json& json, JsonPath path, std::string_view otherwise = {});
bool GetBool(const nlohmann::json& json, JsonPath path, bool otherwise = false);
// Accepts only integers: 1.5, "1" and values out of range count as another type.
std::optional<int64_t> GetInt64(const nlohmann::json& json, JsonPath path);
std::optional<int32_t> GetInt32(const nlohmann::json& json, JsonPath path);
// Decodes a quantity that is a plain integer, as a JSON number or text, such as the quantities of
// extended resources. Returns nothing for any other notation, such as "1k".
std::optional<int64_t> ReadWholeQuantity(const nlohmann::json& quantity);
// Returns the array at the path, or an empty array. The reference is valid as long as `json`.
const nlohmann::json& GetArray(const nlohmann::json& json, JsonPath path);
// Returns the entries whose value is a string. Used for labels and annotations.
std::map<std::string, std::string> GetStringMap(const nlohmann::json& json, JsonPath path);

// Returns the JSON merge patch that turns `from` into `to`, or an empty object if they are equal.
// Lists are replaced as a whole.
nlohmann::json MakeMergePatch(const nlohmann::json& from, const nlohmann::json& to);

// Parses an object of the API server. Like ParseJson() (common/json/json.h), but skips
// metadata.managedFields, which is not used and is a third of many objects.
Result<nlohmann::json> ParseServerJson(std::string_view text);
// Namespace and name of a watch event's object, from the first bytes of the event. Fields that were
// not read are empty.
struct EventBeginning {
  std::string ns;
  std::string name;
};
EventBeginning ReadEventBeginning(std::string_view text);

}  // namespace ringmaster::kube
