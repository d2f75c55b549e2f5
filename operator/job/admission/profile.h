#pragma once

// Decodes TrainingProfiles and selects the profile for a job. In a profile, a platform team defines
// the rights, limits and settings of jobs in some namespaces (ADR 47). Only profiles in the
// operator's namespace are used, because job owners cannot write there. Pure functions.

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
  bool is_default = false;                // whether jobs without spec.profile use it
  JobRules rules{};                       // the field `ns` is not set
  api::Workload workload{};
  std::string problem{};  // why no job can use it ("it ..."); empty: jobs can use it
  std::string reason{};   // the reason as a constant of reasons.h
  std::string text{};     // its original spec as JSON, without the namespaces
  int64_t generation = 0;
  std::optional<api::Condition> accepted{};  // the condition Accepted of its status, if any
};

using ProfilePtr = std::shared_ptr<const Profile>;

// Decodes a profile from the API server. Sets `problem` if the object cannot be decoded, or if the
// profile's rules do not allow its own workload. If the namespaces cannot be decoded, the profile
// becomes the default of all namespaces, so that no job can escape the limits of the profile.
Profile ReadProfile(const nlohmann::json& object);

// The name of the built-in profile, for namespaces without a default: it allows only ordinary Pods.
// Jobs in a namespace with a default cannot name it, because they would avoid the default's limits.
// An ordinary TrainingProfile with this name replaces the built-in profile in its namespaces.
inline constexpr char kRestricted[] = "restricted";

// Decodes the operator's built-in profiles from JSON: {NAME: a profile's spec}.
Result<std::map<std::string, ProfilePtr>> ReadPresets(std::string_view text);

// The profile and limits of a job.
struct Choice {
  ProfilePtr profile{};  // the profile that applies; null: none
  // Default profiles, for limits that `profile` does not set. Each precedes the ones that only set
  // limits that it does not set.
  std::vector<ProfilePtr> limits{};
  std::string problem{};            // why no profile applies; empty if one applies
  std::vector<std::string> open{};  // profile names that jobs of the namespace can use

  // Returns true if both choices are equal.
  friend bool operator==(const Choice&, const Choice&) = default;
};

// Chooses a job's profile: `wanted`, which the job names. If `wanted` is empty, chooses the default
// that lists the namespace, else the default for all namespaces, else kRestricted. A missing
// profile and a profile of other namespaces give the same error message.
Choice ChooseProfile(const std::vector<ProfilePtr>& profiles, const std::string& ns,
                     const std::string& wanted, const std::string& operator_ns);

// A profile that jobs of a namespace may name and with which they can start.
struct OpenProfile {
  ProfilePtr profile{};
  bool is_default = false;  // whether jobs without spec.profile use it
  bool judged = false;      // whether its condition Accepted is for its current spec
};
std::vector<OpenProfile> ProfilesOpenTo(const std::vector<ProfilePtr>& profiles,
                                        const std::string& ns, const std::string& operator_ns);

// Facts about a profile that come from the API server or the operator's presets.
struct ProfileFindings {
  std::string refused{};              // why the API server rejects its Pods; empty: it accepts them
  std::string absent_class{};         // its priority class, if the class does not exist
  std::vector<std::string> absent{};  // namespaces in its list that do not exist
  ProfilePtr preset{};                // the preset with the same name; null: none
};

// Returns the profile's condition Accepted, without a time: whether jobs may use the profile and,
// for a default, whether it applies as the default. `profiles`: all profiles, including this one.
api::Condition JudgeProfile(const Profile& profile, const std::vector<ProfilePtr>& profiles,
                            const ProfileFindings& found = {});

// Returns true if the condition Accepted is for the current spec. Always true for presets.
bool IsJudged(const Profile& profile);

// Returns why no run can start with the profile, if its status says that the API server rejects
// Pods with its spec; otherwise empty. The profile's rules still apply to existing runs.
std::string WhyNoRunBegins(const Profile& profile);

JobRules RulesOf(const Choice& choice, const std::string& ns);

}  // namespace ringmaster::job
