#include "operator/job/admission/findings.h"

#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr char kNoObject[] = "is not an object; correct it";

// An object of 256 KiB can have lists of 100,000 items. Checks of pairs of items, such as mounts
// and volumes, and the violations of such lists would otherwise take minutes and much memory.
constexpr std::size_t kMostItems = 1000;
constexpr std::size_t kMostFindings = 100;

}  // namespace

void Findings::Add(const std::string& path, const std::string& message) {
  Keep({.path = path, .message = message});
}

void Findings::AddByPolicy(const std::string& path, const std::string& message) {
  Keep({.path = path, .message = message, .by_policy = true});
}

void Findings::Keep(Violation violation) {
  const bool first_of_kind = std::none_of(list_.begin(), list_.end(), [&](const Violation& other) {
    return other.by_policy == violation.by_policy;
  });
  if (list_.size() < kMostFindings || first_of_kind) list_.push_back(std::move(violation));
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
  if (list->size() > kMostItems) {
    return Add(path + "." + field, "has " + std::to_string(list->size()) + " items, more than " +
                                       std::to_string(kMostItems) + "; shorten it");
  }
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
