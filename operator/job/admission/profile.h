#pragma once

// A TrainingProfile: what a platform team allows and sets for jobs of some namespaces (ADR 47).
// Only profiles in the operator's namespace count, where users of jobs cannot write. Reads profiles
// and selects the one for a job. Pure functions.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/api/workload.h"
#include "operator/job/admission/job_rules.h"

namespace ringmaster::job {

struct Profile {
  std::string name{};
  std::vector<std::string> namespaces{};  // "*": all
  bool is_default = false;                // of those namespaces
  JobRules rules{};                       // without a namespace
  api::Workload workload{};
  std::string problem{};  // "it ...": why no job can use it; empty: any may
  std::string reason{};   // the same for programs (reasons.h)
  std::string text{};     // its spec as written, as JSON, without whose it is
  int64_t generation = 0;
  std::optional<api::Condition> accepted{};  // as its status says; unset: nobody has said it
};

using ProfilePtr = std::shared_ptr<const Profile>;

// An object of the API server. One that cannot be read has a problem, as has one with a workload
// that its own rules do not allow: tenants' commands run with what it sets. Where it cannot be read
// whose it is, it is the default of all namespaces: what it would limit must not go unlimited.
Profile ReadProfile(const nlohmann::json& object);

// The profile of a job whose namespace has no default: an ordinary Pod. A namespace with a default
// cannot name it, because that would avoid the default's limits. A profile with this name is like
// any other, and replaces it in its namespaces.
inline constexpr char kRestricted[] = "restricted";

// Profiles that the operator was started with, by name: {NAME: a profile's spec}.
Result<std::map<std::string, ProfilePtr>> ReadPresets(std::string_view text);

// The profile and limits of a job.
struct Choice {
  ProfilePtr profile{};  // null: none
  std::vector<ProfilePtr>
      limits{};                     // the namespace's defaults: their limits hold where it has none
  std::string problem{};            // why there is none; empty: there is one
  std::vector<std::string> open{};  // names that a job of the namespace may say

  // Whether nothing that was chosen from has changed.
  friend bool operator==(const Choice&, const Choice&) = default;
};

// `wanted`: the one that the job names; empty: its namespace's default, of which one that names the
// namespace comes before one for all, else kRestricted. One that does not exist and one that is not
// for the namespace cannot be told apart.
Choice ChooseProfile(const std::vector<ProfilePtr>& profiles, const std::string& ns,
                     const std::string& wanted, const std::string& operator_ns);

// One that jobs of a namespace may name, and with which they can begin.
struct OpenProfile {
  ProfilePtr profile{};
  bool is_default = false;  // the one that counts for jobs that name none
  bool judged = false;      // its verdict is of the spec that it has now
};
std::vector<OpenProfile> ProfilesOpenTo(const std::vector<ProfilePtr>& profiles,
                                        const std::string& ns, const std::string& operator_ns);

// Facts about a profile that neither it nor the other profiles contain.
struct ProfileFindings {
  std::string refused{};              // what of its Pods the API server refuses; empty: nothing
  std::string absent_class{};         // its priority class, if that does not exist
  std::vector<std::string> absent{};  // of its namespaces
  ProfilePtr preset{};                // of its name; null: none
};

// Its condition Accepted, without a time: whether jobs of its namespaces may use it, and as their
// default where it says so. `profiles`: all, with it.
api::Condition JudgeProfile(const Profile& profile, const std::vector<ProfilePtr>& profiles,
                            const ProfileFindings& found = {});

// Whether its verdict is for its current spec. Always true for presets.
bool IsJudged(const Profile& profile);

// Why no run can start under it, although its rules apply to existing runs: the API server rejects
// its Pods, according to its status for this spec. Empty if runs can start.
std::string WhyNoRunBegins(const Profile& profile);

JobRules RulesOf(const Choice& choice, const std::string& ns);

}  // namespace ringmaster::job
