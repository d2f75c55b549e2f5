#include "operator/job/controller/profile_source.h"

#include <utility>

namespace ringmaster::job {

std::vector<ProfilePtr> ProfileSource::All() const {
  std::map<std::string, ProfilePtr> by_name = presets;
  for (const ProfilePtr& profile : stored.List()) by_name[profile->name] = profile;
  std::vector<ProfilePtr> all;
  all.reserve(by_name.size());
  for (auto& [name, profile] : by_name) all.push_back(std::move(profile));
  return all;
}

}  // namespace ringmaster::job
