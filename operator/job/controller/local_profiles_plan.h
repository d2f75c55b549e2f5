#pragma once

// Computes which LocalTrainingProfiles a namespace should have, and their content (ADR 113). Pure
// functions; local_profiles.h applies the result.

#include <memory>
#include <string>
#include <vector>

#include "operator/job/admission/profile.h"
#include "operator/job/model/views.h"

namespace ringmaster::job {

struct LocalProfilesPlan {
  struct Write {
    std::string name{};
    std::string spec{};  // JSON
    friend bool operator==(const Write&, const Write&) = default;
  };
  std::vector<Write> writes{};
  std::vector<std::shared_ptr<const LocalProfileView>> removals{};
};

// `existing`: the objects in the namespace, in any order. Objects of another installation are not
// changed; otherwise two installations of one namespace would overwrite each other forever.
LocalProfilesPlan PlanLocalProfiles(
    const std::vector<OpenProfile>& open,
    const std::vector<std::shared_ptr<const LocalProfileView>>& existing,
    const std::string& installation);

}  // namespace ringmaster::job
