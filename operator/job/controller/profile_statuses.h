#pragma once

// Writes the condition Accepted of each TrainingProfile (profile.h), which tells the platform team
// whether jobs can use it. Jobs are checked against the profiles themselves; the status can only
// prevent a run from starting (WhyNoRunBegins()). Called by the only worker of a separate
// Controller.

#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/controller/observe.h"
#include "operator/job/controller/profile_source.h"
#include "operator/job/controller/profile_trial.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/controller.h"

namespace ringmaster::job {

// All references must outlive ProfileStatuses.
struct ProfileStatusesParts {
  const Clock& clock;
  kube::KubeClient& client;
  ProfileSource profiles;
  const NamespaceStore* namespaces = nullptr;  // null: namespaces are not watched
  std::string trial_ns{};                      // a namespace where the operator may create Pods
};

class ProfileStatuses {
 public:
  explicit ProfileStatuses(ProfileStatusesParts parts);

  // `key` is "<namespace>/<name>" of a TrainingProfile, which may be gone. Blocks on the API
  // server.
  Result<runtime::ReconcileResult> Reconcile(const std::string& key);

 private:
  // Returns whether the API server accepts the profile's Pods. Tries each spec once, but repeats
  // the trial while the priority class does not exist.
  Result<Trial> Try(const std::string& key, const Profile& profile);
  std::vector<std::string> AbsentOf(const Profile& profile) const;

  struct Tried {
    std::string text;  // the profile's spec
    Trial trial;
  };

  const ProfileStatusesParts parts_;
  std::map<std::string, Tried> tried_;
  // The last status written, by key. It is used instead of the stored status, which may be older or
  // from another operator: two operators that disagree must not overwrite each other forever.
  std::map<std::string, api::Condition> written_;
};

}  // namespace ringmaster::job
