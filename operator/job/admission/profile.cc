#include "operator/job/admission/profile.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/json/fields.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/api/typed_fields.h"
#include "operator/job/admission/rights_policy.h"
#include "operator/job/admission/template_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

// Describes spec.allows and spec.limits of a profile.
void Describe(auto& a, Is<JobRules> auto& v) {
  a.Inside("allows", [&v](auto& b) {
    b.Sparse("hostNetwork", v.host_network);
    b.Sparse("privileged", v.privileged);
    b.Sparse("root", v.root);
    b.Sparse("resourceClaims", v.resource_claims);
    b.Sparse("serviceAccounts", v.service_accounts);
    b.Sparse("capabilities", v.capabilities);
    b.Sparse("devices", v.devices);
    b.Sparse("schedulers", v.schedulers);
    b.Sparse("hostPaths", v.host_paths);
  });
  a.Inside("limits", [&v](auto& b) {
    b.Sparse("workers", v.max_workers);
    b.Sparse("gpus", v.max_gpus);
    b.Sparse("devices", v.max_devices);
    b.Sparse("imagePrefixes", v.image_prefixes);
    b.Sparse("priorityClasses", v.priority_classes);
    b.Sparse("runtimeClasses", v.runtime_classes);
  });
}

namespace {

constexpr char kAll[] = "*";  // all namespaces
constexpr char kNoJob[] = "no job can use it: ";

struct Reach {
  std::vector<std::string> namespaces;
  bool is_default = false;
  std::vector<std::string> overridable;
};

void Describe(auto& a, Is<Reach> auto& v) {
  a.Sparse("namespaces", v.namespaces);
  a.Sparse("default", v.is_default);
  a.Sparse("overridable", v.overridable);
}

// Returns the parts of the workload that the profile's own rules reject; empty if there are none.
std::string Uncovered(const Profile& profile) {
  const api::TrainingJobSpec& spec = profile.workload.spec;
  std::vector<Violation> found = CheckSpec(spec, profile.rules);
  if (found.empty()) found = CheckRequests(spec, profile.rules);
  if (found.empty()) return {};
  const Violation& first = found.front();
  const std::string path =
      "spec.workload" + api::PathAsWritten(spec.typed_fields, first.path).substr(sizeof "spec" - 1);
  if (!first.by_policy) return path + " " + first.message;
  return "its workload sets a field that the profile does not allow (" + path + ")";
}

Result<Profile> ReadProfileSpec(std::string name, const json& spec) {
  auto reach = FromJson<Reach>(spec, "spec");
  if (!reach.ok()) return reach.error();
  auto rules = FromJson<JobRules>(spec, "spec");
  if (!rules.ok()) return rules.error();
  const json* written = kube::Find(spec, {"workload"});
  auto workload =
      api::DecodeWorkload(written == nullptr ? json::object() : *written, reach->overridable);
  if (!workload.ok()) return workload.error().WithContext("reading spec.workload");
  Profile profile{.name = std::move(name),
                  .namespaces = std::move(reach->namespaces),
                  .is_default = reach->is_default,
                  .rules = *std::move(rules),
                  .workload = *std::move(workload)};
  json text = spec;
  text.erase("namespaces");
  profile.text = DumpJson(text);
  profile.rules.profile = profile.name;
  profile.rules.sets_fields = !profile.workload.text.empty();
  profile.problem = Uncovered(profile);
  if (!profile.problem.empty()) profile.reason = api::kReasonNotCovered;
  return profile;
}

// Reads a profile. If that fails, returns a profile that jobs cannot use.
Profile ReadAnySpec(const std::string& name, const json& spec) {
  auto profile = ReadProfileSpec(name, spec);
  if (profile.ok()) return *std::move(profile);
  Profile unreadable{.name = name,
                     .problem = "it cannot be decoded: " + profile.error().message,
                     .reason = api::kReasonUnreadable};
  auto reach = FromJson<Reach>(spec, "spec");
  if (reach.ok()) {
    unreadable.namespaces = std::move(reach->namespaces);
    unreadable.is_default = reach->is_default;
  } else {
    unreadable.namespaces = {kAll};
    unreadable.is_default = true;
  }
  return unreadable;
}

std::optional<api::Condition> AcceptedOf(const json& object) {
  for (const json& condition : kube::GetArray(object, {"status", "conditions"})) {
    if (kube::GetString(condition, {"type"}) != api::kAccepted) continue;
    const bool is_true = kube::GetString(condition, {"status"}) == "True";
    return api::Condition{
        .type = api::kAccepted,
        .status = is_true ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse,
        .reason = kube::GetString(condition, {"reason"}),
        .message = kube::GetString(condition, {"message"}),
        .last_transition_time = kube::GetString(condition, {"lastTransitionTime"}),
        .observed_generation = kube::GetInt64(condition, {"observedGeneration"}).value_or(0)};
  }
  return std::nullopt;
}

std::vector<std::string> NamesOf(const std::vector<ProfilePtr>& profiles) {
  std::vector<std::string> names;
  for (const ProfilePtr& profile : profiles) names.push_back(profile->name);
  return names;
}

bool Lists(const Profile& profile, const std::string& ns) {
  return std::find(profile.namespaces.begin(), profile.namespaces.end(), ns) !=
         profile.namespaces.end();
}

// Returns the profile with this name, if it lists the namespace. Names are unique.
std::vector<ProfilePtr> Named(const std::vector<ProfilePtr>& profiles, const std::string& name,
                              const std::string& ns) {
  for (const ProfilePtr& profile : profiles) {
    if (profile->name != name) continue;
    if (Lists(*profile, ns) || Lists(*profile, kAll)) return {profile};
  }
  return {};
}

// Returns the default profiles that list `ns`, which is a namespace or kAll.
std::vector<ProfilePtr> DefaultsThatList(const std::vector<ProfilePtr>& profiles,
                                         const std::string& ns) {
  std::vector<ProfilePtr> found;
  for (const ProfilePtr& profile : profiles) {
    if (profile->is_default && Lists(*profile, ns)) found.push_back(profile);
  }
  return found;
}

// Returns the default profiles of a namespace that have the highest precedence.
std::vector<ProfilePtr> DefaultsOf(const std::vector<ProfilePtr>& profiles, const std::string& ns) {
  std::vector<ProfilePtr> found = DefaultsThatList(profiles, ns);
  return found.empty() ? DefaultsThatList(profiles, kAll) : found;
}

// Returns the profiles whose limits apply to all jobs of a namespace: its own defaults, and after
// them those of all namespaces.
std::vector<ProfilePtr> LimitsOf(const std::vector<ProfilePtr>& profiles, const std::string& ns) {
  std::vector<ProfilePtr> found = DefaultsThatList(profiles, ns);
  for (ProfilePtr& profile : DefaultsThatList(profiles, kAll)) found.push_back(std::move(profile));
  return found;
}

std::vector<ProfilePtr> Find(const std::vector<ProfilePtr>& profiles, const std::string& ns,
                             const std::string& wanted) {
  std::vector<ProfilePtr> found =
      wanted.empty() ? DefaultsOf(profiles, ns) : Named(profiles, wanted, ns);
  if (!found.empty() || (!wanted.empty() && wanted != kRestricted)) return found;
  if (wanted.empty()) found = Named(profiles, kRestricted, ns);
  if (!found.empty() || !DefaultsOf(profiles, ns).empty()) return found;
  static const ProfilePtr kBuiltIn = std::make_shared<const Profile>(
      Profile{.name = kRestricted, .rules = {.profile = kRestricted}});
  return {kBuiltIn};
}

std::string CannotBeUsed(const std::string& name, const std::string& why) {
  return "the TrainingProfile \"" + name + "\" cannot be used, because " + why +
         "; ask the platform team";
}

// Returns the end of a message: which of the listed namespaces do not exist.
std::string Absent(std::vector<std::string> names) {
  constexpr std::size_t kMostShown = 10;
  if (names.empty()) return {};
  if (names.size() > kMostShown) {
    const std::size_t more = names.size() - kMostShown;
    names.resize(kMostShown);
    names.push_back("and " + std::to_string(more) + " more");
  }
  return "; it lists namespaces that do not exist" + Listed(names);
}

std::string AbsentClass(const std::string& name) {
  if (name.empty()) return {};
  return "; its PriorityClass \"" + name + "\" does not exist, so jobs that use it get no Pods";
}

// Returns the end of a message: which namespaces can no longer use the preset.
std::string TakenFrom(const Profile& profile, const ProfilePtr& preset) {
  if (preset == nullptr || Lists(profile, kAll)) return {};
  std::vector<std::string> others;
  for (const std::string& ns : preset->namespaces) {
    if (!Lists(profile, ns)) others.push_back(ns);
  }
  if (others.empty()) return {};
  const bool all = Lists(*preset, kAll);
  return "; it replaces the preset of the same name, so jobs in " + std::string(all ? "all " : "") +
         "other namespaces" + (all ? "" : Listed(others)) + " can no longer use it";
}

std::string WhyUnusable(const Profile& profile, const std::string& ns,
                        const std::string& operator_ns) {
  if (!profile.problem.empty()) return CannotBeUsed(profile.name, profile.problem);
  if (ns == operator_ns && profile.rules.Grants()) {
    return "the TrainingProfile \"" + profile.name +
           "\" grants rights beyond an ordinary Pod, but the job is in the operator's namespace, "
           "where anyone who may create Pods would get these rights; run the job in another "
           "namespace, or name a profile without spec.allows";
  }
  return {};
}

}  // namespace

Profile ReadProfile(const json& object) {
  const std::string name = kube::GetString(object, {"metadata", "name"});
  const json* found = kube::Find(object, {"spec"});
  Profile profile = ReadAnySpec(name, found == nullptr ? json::object() : *found);
  profile.generation = kube::GetInt64(object, {"metadata", "generation"}).value_or(0);
  profile.accepted = AcceptedOf(object);
  return profile;
}

Result<std::map<std::string, ProfilePtr>> ReadPresets(std::string_view text) {
  std::map<std::string, ProfilePtr> presets;
  if (text.empty()) return presets;
  const Result<json> document = ParseJsonObject(text);
  if (!document.ok()) return document.error();
  for (const auto& [name, spec] : document->items()) {
    auto profile = ReadProfileSpec(name, spec);
    if (!profile.ok()) return profile.error().WithContext("reading the profile " + name);
    if (!profile->problem.empty()) {
      return Error{ErrorKind::kInvalid,
                   "the profile " + name + " cannot be used, because " + profile->problem};
    }
    presets[name] = std::make_shared<const Profile>(*std::move(profile));
  }
  return presets;
}

std::vector<OpenProfile> ProfilesOpenTo(const std::vector<ProfilePtr>& profiles,
                                        const std::string& ns, const std::string& operator_ns) {
  const std::vector<ProfilePtr> defaults = DefaultsOf(profiles, ns);
  std::vector<OpenProfile> open;
  for (const ProfilePtr& profile : profiles) {
    const bool listed = Lists(*profile, ns) || Lists(*profile, kAll);
    if (!listed || !WhyUnusable(*profile, ns, operator_ns).empty()) continue;
    if (!WhyNoRunBegins(*profile).empty()) continue;
    const bool is_default = defaults.size() == 1 && defaults.front() == profile;
    open.push_back({profile, is_default, IsJudged(*profile)});
  }
  return open;
}

Choice ChooseProfile(const std::vector<ProfilePtr>& profiles, const std::string& ns,
                     const std::string& wanted, const std::string& operator_ns) {
  const std::vector<ProfilePtr> found = Find(profiles, ns, wanted);
  Choice choice;
  for (const OpenProfile& open : ProfilesOpenTo(profiles, ns, operator_ns)) {
    choice.open.push_back(open.profile->name);
  }
  if (found.empty()) {
    choice.problem = "there is no TrainingProfile \"" + wanted + "\" for namespace " + ns +
                     "; name another one" + Listed(choice.open) + ", or ask the platform team";
    return choice;
  }
  if (found.size() > 1) {
    choice.problem =
        "namespace " + ns + " has several default TrainingProfiles" + Listed(NamesOf(found)) +
        "; name one of them in spec.profile, or ask the platform team to keep only one";
    return choice;
  }
  choice.problem = WhyUnusable(*found.front(), ns, operator_ns);
  choice.limits = LimitsOf(profiles, ns);
  std::erase(choice.limits, found.front());
  for (const ProfilePtr& limits : choice.limits) {
    if (choice.problem.empty() && !limits->problem.empty()) {
      choice.problem = WhyUnusable(*limits, ns, operator_ns);
    }
  }
  if (choice.problem.empty()) choice.profile = found.front();
  return choice;
}

api::Condition JudgeProfile(const Profile& profile, const std::vector<ProfilePtr>& profiles,
                            const ProfileFindings& found) {
  api::Condition accepted{.type = api::kAccepted,
                          .status = api::ConditionStatus::kTrue,
                          .reason = api::kAccepted,
                          .message = "jobs in its namespaces may use it",
                          .observed_generation = profile.generation};
  const auto refuse = [&](const std::string& reason, std::string message) {
    accepted.status = api::ConditionStatus::kFalse;
    accepted.reason = reason;
    accepted.message = std::move(message);
  };
  if (!profile.problem.empty()) {
    refuse(profile.reason, kNoJob + profile.problem);
    return accepted;
  }
  if (!found.refused.empty()) {
    refuse(api::kReasonPodsRefused, std::string(kNoJob) + "the API server rejects its Pods: " +
                                        found.refused + AbsentClass(found.absent_class));
    return accepted;
  }
  if (profile.namespaces.empty()) {
    accepted.message = "it lists no namespaces, so no job may use it";
  }
  accepted.message +=
      AbsentClass(found.absent_class) + Absent(found.absent) + TakenFrom(profile, found.preset);
  if (!profile.is_default) return accepted;
  for (const std::string& ns : profile.namespaces) {
    const std::vector<ProfilePtr> defaults = DefaultsOf(profiles, ns);
    if (defaults.size() < 2) continue;
    refuse(api::kReasonDefaultConflict,
           (ns == kAll ? "all namespaces have" : "namespace " + ns + " has") +
               " several default TrainingProfiles" + Listed(NamesOf(defaults)) +
               ", so jobs there without spec.profile get no Pods; keep only one of them");
    break;
  }
  return accepted;
}

bool IsJudged(const Profile& profile) {
  const bool preset = profile.generation == 0;
  return preset ||
         (profile.accepted && profile.accepted->observed_generation == profile.generation);
}

std::string WhyNoRunBegins(const Profile& profile) {
  const std::optional<api::Condition>& accepted = profile.accepted;
  if (!accepted || accepted->status != api::ConditionStatus::kFalse ||
      accepted->reason != api::kReasonPodsRefused || !IsJudged(profile)) {
    return {};
  }
  const std::string& message = accepted->message;
  const std::size_t begin = message.starts_with(kNoJob) ? sizeof kNoJob - 1 : 0;
  return CannotBeUsed(profile.name, message.substr(begin));
}

JobRules RulesOf(const Choice& choice, const std::string& ns) {
  JobRules rules = choice.profile == nullptr ? JobRules() : choice.profile->rules;
  for (const ProfilePtr& limits : choice.limits) rules.LimitAs(limits->rules);
  rules.ns = ns;
  rules.problem = choice.problem;
  rules.open = choice.open;
  return rules;
}

}  // namespace ringmaster::job
