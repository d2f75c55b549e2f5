#pragma once

// Collects what the template policies reject. Each policy walks the JSON of a template and adds its
// findings to one list. Used by template_policy.cc and the policies that it calls: volume_policy.h,
// container_policy.h and security_context_policy.h.

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
  // Receives an object and its path.
  using Check = std::function<void(const nlohmann::json&, const std::string&)>;

  void Add(const std::string& path, const std::string& message);
  // Adds a violation that a profile could allow.
  void AddByPolicy(const std::string& path, const std::string& message);
  // Rejects a field that exists and is not null. `path` is the path of the object.
  void RefuseSet(const nlohmann::json& object, const char* field, const std::string& path,
                 const char* message);

  // Call `check` for each object in a list (ForEach) or for an object (IfObject), unless the field
  // is absent or null. Add a finding if the field has another type or too many items, because it
  // cannot be checked.
  void ForEach(const nlohmann::json& object, const char* field, const std::string& path,
               const Check& check);
  void IfObject(const nlohmann::json& object, const char* field, const std::string& path,
                const Check& check);

  // Returns the violations in the order in which they were found: the first hundred, and the first
  // of each kind (by_policy).
  std::vector<Violation> Take() { return std::move(list_); }

 private:
  void Keep(Violation violation);

  std::vector<Violation> list_;
};

}  // namespace ringmaster::job
