#include "operator/job/controller/profile_statuses.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/job/admission/profile.h"
#include "operator/job/model/foreign_times.h"
#include "operator/kube/resource.h"

namespace ringmaster::job {

using nlohmann::json;

ProfileStatuses::ProfileStatuses(const Clock& clock, kube::KubeClient& client,
                                 ProfileSource profiles)
    : clock_(clock), client_(client), profiles_(std::move(profiles)) {}

Result<runtime::ReconcileResult> ProfileStatuses::Reconcile(const std::string& key) {
  const ProfilePtr profile = profiles_.stored.Get(key);
  if (profile == nullptr) {
    written_.erase(key);
    return runtime::ReconcileResult{};
  }
  std::vector<api::Condition> conditions;
  if (profile->accepted) {
    const auto ours = written_.find(key);
    conditions.push_back(ours == written_.end() ? *profile->accepted : ours->second);
  }
  const std::vector<api::Condition> before = conditions;
  api::SetCondition(conditions, JudgeProfile(*profile, profiles_.All()),
                    FormatTime(clock_.WallNow()));
  if (conditions == before) return runtime::ReconcileResult{};
  const api::Condition& accepted = conditions.front();
  const json condition{{"type", accepted.type},
                       {"status", api::ToString(accepted.status)},
                       {"reason", accepted.reason},
                       {"message", accepted.message},
                       {"lastTransitionTime", accepted.last_transition_time},
                       {"observedGeneration", accepted.observed_generation}};
  const json status{{"observedGeneration", accepted.observed_generation},
                    {"conditions", json::array({condition})}};
  const Result<json> stored = client_.PatchStatus(kube::kTrainingProfiles, profiles_.operator_ns,
                                                  profile->name, {{"status", status}});
  if (!stored.ok() && stored.error().kind == ErrorKind::kNotFound) {
    return runtime::ReconcileResult{};
  }
  if (!stored.ok()) return stored.error();
  written_[key] = accepted;
  return runtime::ReconcileResult{};
}

}  // namespace ringmaster::job
