#include "tests/fakes/other_version.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/messages.h"

namespace ringmaster {
namespace {

using Json = nlohmann::json;

constexpr char kTextMap[] = "versions";  // of AgentReady: its keys are no fields

void AddFields(Json& value) {
  for (auto& [key, item] : value.items()) {
    if (item.is_structured() && key != kTextMap) AddFields(item);
  }
  if (value.is_object()) value["later"] = {{"a", Json::array({1, nullptr})}};
}

// Drops what it can below `value`, a part of `document`.
void DropFields(Json& document, Json& value, const std::function<bool(const std::string&)>& fits) {
  if (value.is_array()) {
    for (Json& item : value) DropFields(document, item, fits);
  }
  if (!value.is_object()) return;
  std::vector<std::string> names;
  for (const auto& [key, item] : value.items()) names.push_back(key);
  for (const std::string& name : names) {
    Json kept = std::move(value[name]);
    value.erase(name);
    if (fits(document.dump())) continue;
    value[name] = std::move(kept);
    DropFields(document, value[name], fits);
  }
}

}  // namespace

std::string AsNewer(const std::string& document) {
  Json json = Json::parse(document);
  AddFields(json);
  return json.dump();
}

std::string AsOlder(const std::string& document,
                    const std::function<bool(const std::string&)>& understood) {
  Json json = Json::parse(document);
  DropFields(json, json, understood);
  return json.dump();
}

std::string LineAsOlder(const std::string& line) {
  return AsOlder(line, [](const std::string& text) { return control::Decode(text).ok(); });
}

std::string UnknownLine() { return R"({"type":"Later","epoch":{"term":1,"number":1}})"; }

}  // namespace ringmaster
