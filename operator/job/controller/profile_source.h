#pragma once

// The interface through which code reads the current TrainingProfiles.

#include <map>
#include <string>
#include <vector>

#include "operator/job/admission/profile.h"
#include "operator/job/controller/observe.h"

namespace ringmaster::job {

struct ProfileSource {
  const ProfileStore& stored;                   // profiles in `operator_ns`; must outlive this
  std::map<std::string, ProfilePtr> presets{};  // by name; stored profiles take precedence
  std::string operator_ns{};

  // Returns all profiles, ordered by name.
  std::vector<ProfilePtr> All() const;
};

}  // namespace ringmaster::job
