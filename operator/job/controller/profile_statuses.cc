#include "operator/job/controller/profile_statuses.h"

#include <chrono>
#include <string>
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

namespace {

// The interval of checks for a missing priority class. Priority classes are not watched.
constexpr std::chrono::minutes kTryAgain{1};

}  // namespace

ProfileStatuses::ProfileStatuses(ProfileStatusesParts parts) : parts_(std::move(parts)) {}

Result<Trial> ProfileStatuses::Try(const std::string& key, const Profile& profile) {
  if (!profile.problem.empty()) return Trial();
  const auto found = tried_.find(key);
  if (found != tried_.end() && found->second.text == profile.text &&
      found->second.trial.absent_class.empty()) {
    return found->second.trial;
  }
  Result<Trial> trial = TryPods(parts_.client, parts_.trial_ns, profile);
  if (trial.ok()) tried_[key] = {.text = profile.text, .trial = *trial};
  return trial;
}

std::vector<std::string> ProfileStatuses::AbsentOf(const Profile& profile) const {
  std::vector<std::string> absent;
  if (parts_.namespaces == nullptr || !parts_.namespaces->Synced()) return absent;
  for (const std::string& ns : profile.namespaces) {
    if (ns != "*" && parts_.namespaces->Get(ns) == nullptr) absent.push_back(ns);
  }
  return absent;
}

Result<runtime::ReconcileResult> ProfileStatuses::Reconcile(const std::string& key) {
  const ProfilePtr profile = parts_.profiles.stored.Get(key);
  if (profile == nullptr) {
    written_.erase(key);
    tried_.erase(key);
    return runtime::ReconcileResult{};
  }
  const Result<Trial> trial = Try(key, *profile);
  if (!trial.ok()) return trial.error().WithContext("trying the Pods of a TrainingProfile");
  runtime::ReconcileResult later;
  if (!trial->absent_class.empty()) later.requeue_after = kTryAgain;
  const auto preset = parts_.profiles.presets.find(profile->name);
  const ProfileFindings found{
      .refused = trial->refused,
      .absent_class = trial->absent_class,
      .absent = AbsentOf(*profile),
      .preset = preset == parts_.profiles.presets.end() ? nullptr : preset->second};
  std::vector<api::Condition> conditions;
  if (profile->accepted) {
    const auto ours = written_.find(key);
    conditions.push_back(ours == written_.end() ? *profile->accepted : ours->second);
  }
  const std::vector<api::Condition> before = conditions;
  api::SetCondition(conditions, JudgeProfile(*profile, parts_.profiles.All(), found),
                    FormatTime(parts_.clock.WallNow()));
  if (conditions == before) return later;
  const api::Condition& accepted = conditions.front();
  const json condition{{"type", accepted.type},
                       {"status", api::ToString(accepted.status)},
                       {"reason", accepted.reason},
                       {"message", accepted.message},
                       {"lastTransitionTime", accepted.last_transition_time},
                       {"observedGeneration", accepted.observed_generation}};
  const json status{{"observedGeneration", accepted.observed_generation},
                    {"conditions", json::array({condition})}};
  const Result<json> stored = parts_.client.PatchStatus(
      kube::kTrainingProfiles, parts_.profiles.operator_ns, profile->name, {{"status", status}});
  if (!stored.ok() && stored.error().kind == ErrorKind::kNotFound) {
    return runtime::ReconcileResult{};
  }
  if (!stored.ok()) return stored.error();
  written_[key] = accepted;
  return later;
}

}  // namespace ringmaster::job
