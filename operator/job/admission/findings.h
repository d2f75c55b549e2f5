#pragma once

// What the policies for templates find wrong: they walk a template's JSON, and each puts on one
// list what it refuses. Used by template_policy.cc and by the policies that it asks
// (volume_policy.h, container_policy.h, security_context_policy.h); what is refused stands there.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "operator/job/model/violation.h"

namespace ringmaster::job {

inline constexpr char kByRingmaster[] = "is set by Ringmaster; remove it from the template";
inline constexpr char kBeyondRestricted[] =
    "is rejected, because it gives the Pod rights beyond Pod Security \"restricted\"; remove it";

class Findings {
 public:
  // An object, and its path.
  using Check = std::function<void(const nlohmann::json&, const std::string&)>;

  void Add(const std::string& path, const std::string& message);
  // A profile could allow it.
  void AddByPolicy(const std::string& path, const std::string& message);
  // Refuses a field that is there and not null. `path` is the object's.
  void RefuseSet(const nlohmann::json& object, const char* field, const std::string& path,
                 const char* message);

  // Check what is below a field, if it is there and not null. A list has to be a list and its items
  // objects, or what is below them would escape the checks.
  void ForEach(const nlohmann::json& object, const char* field, const std::string& path,
               const Check& check);
  void IfObject(const nlohmann::json& object, const char* field, const std::string& path,
                const Check& check);

  // In the order in which they were found.
  std::vector<Violation> Take() { return std::move(list_); }

 private:
  std::vector<Violation> list_;
};

}  // namespace ringmaster::job
