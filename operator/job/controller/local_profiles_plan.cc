#include "operator/job/controller/local_profiles_plan.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace ringmaster::job {
namespace {

// Returns the profile's spec, without `default` if it is the default only in other namespaces.
std::string LocalSpec(const OpenProfile& open) {
  if (open.is_default == open.profile->is_default) return open.profile->text;
  nlohmann::json spec = *ParseJson(open.profile->text);
  spec.erase("default");
  return DumpJson(spec);
}

}  // namespace

LocalProfilesPlan PlanLocalProfiles(
    const std::vector<OpenProfile>& open,
    const std::vector<std::shared_ptr<const LocalProfileView>>& existing,
    const std::string& installation) {
  std::map<std::string, std::shared_ptr<const LocalProfileView>> left;
  for (const auto& object : existing) left[object->name] = object;
  LocalProfilesPlan plan;
  for (const OpenProfile& one : open) {
    LocalProfilesPlan::Write write{.name = one.profile->name, .spec = LocalSpec(one)};
    const auto found = left.extract(write.name);
    if (!one.judged) continue;  // a later condition Accepted causes another reconcile
    const LocalProfileView* stored = found.empty() ? nullptr : found.mapped().get();
    const std::string keeper = stored == nullptr ? std::string() : stored->installation;
    if (!keeper.empty() && keeper != installation) continue;
    const bool as_wanted =
        keeper == installation && stored != nullptr && stored->spec == write.spec;
    if (!as_wanted) plan.writes.push_back(std::move(write));
  }
  for (auto& [name, object] : left) {
    const bool others = !object->installation.empty() && object->installation != installation;
    if (!others) plan.removals.push_back(std::move(object));
  }
  return plan;
}

}  // namespace ringmaster::job
