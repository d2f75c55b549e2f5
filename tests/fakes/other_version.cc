#include "tests/fakes/other_version.h"

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/messages.h"

namespace ringmaster {
namespace {

using Json = nlohmann::json;

constexpr char kTextMap[] = "versions";  // a map in AgentReady; its keys are not field names

void AddFields(Json& value) {
  for (auto& [key, item] : value.items()) {
    if (item.is_structured() && key != kTextMap) AddFields(item);
  }
  if (value.is_object()) value["later"] = {{"a", Json::array({1, nullptr})}};
}

using Understood = std::function<bool(const std::string&)>;
// Maps a field's path to whether the field is optional. All items of a list have the same path.
using Droppable = std::map<std::string, bool>;

// Removes all optional fields below `value`, the part of `document` at `path`.
void DropFields(Json& document, Json& value, const std::string& path, const Understood& understood,
                Droppable& known) {
  if (value.is_array()) {
    for (Json& item : value) DropFields(document, item, path + "[]", understood, known);
  }
  if (!value.is_object()) return;
  std::vector<std::string> names;
  for (const auto& [key, item] : value.items()) names.push_back(key);
  for (const std::string& name : names) {
    const std::string field = path + "." + name;
    Json kept = std::move(value[name]);
    value.erase(name);
    if (!known.contains(field)) known[field] = understood(document.dump());
    if (known[field]) continue;
    value[name] = std::move(kept);
    DropFields(document, value[name], field, understood, known);
  }
}

}  // namespace

std::string AsNewer(const std::string& document) {
  Json json = Json::parse(document);
  AddFields(json);
  return json.dump();
}

std::string AsOlder(const std::string& document, const Understood& understood) {
  Json json = Json::parse(document);
  Droppable known;
  DropFields(json, json, "", understood, known);
  return json.dump();
}

// Tries each field of each type only once, because a proxy must keep up with the connection.
std::string LineAsOlder(const std::string& line) {
  static Droppable known;
  Json json = Json::parse(line);
  DropFields(
      json, json, json.at("type").get<std::string>(),
      [](const std::string& text) { return control::Decode(text).ok(); }, known);
  return json.dump();
}

std::string UnknownLine() { return R"({"type":"Later","epoch":{"term":1,"number":1}})"; }

}  // namespace ringmaster
