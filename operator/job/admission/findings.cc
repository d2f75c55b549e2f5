#include "operator/job/admission/findings.h"

#include <cstddef>

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kNoObject[] = "is not an object; correct it";

}  // namespace

void Findings::Add(const std::string& path, const std::string& message) {
  list_.push_back({.path = path, .message = message});
}

void Findings::AddByPolicy(const std::string& path, const std::string& message) {
  list_.push_back({.path = path, .message = message, .by_policy = true});
}

void Findings::RefuseSet(const json& object, const char* field, const std::string& path,
                         const char* message) {
  if (kube::Find(object, {field}) != nullptr) Add(path + "." + field, message);
}

void Findings::ForEach(const json& object, const char* field, const std::string& path,
                       const Check& check) {
  const json* list = kube::Find(object, {field});
  if (list == nullptr) return;
  if (!list->is_array()) return Add(path + "." + field, "is not a list; correct it");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string at = path + "." + field + "[" + std::to_string(i) + "]";
    if (!(*list)[i].is_object()) {
      Add(at, kNoObject);
    } else {
      check((*list)[i], at);
    }
  }
}

void Findings::IfObject(const json& object, const char* field, const std::string& path,
                        const Check& check) {
  const json* value = kube::Find(object, {field});
  if (value == nullptr) return;
  if (!value->is_object()) return Add(path + "." + field, kNoObject);
  check(*value, path + "." + field);
}

}  // namespace ringmaster::job
