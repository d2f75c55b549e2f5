#pragma once

// Tells the platform team about each TrainingProfile whether jobs can use it: condition Accepted of
// its status (profile.h says which). Jobs are judged by the profiles themselves, never by this.
// Called by the one worker of a Controller of its own.

#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "operator/api/types.h"
#include "operator/job/controller/profile_source.h"
#include "operator/kube/kube_client.h"
#include "operator/runtime/controller.h"

namespace ringmaster::job {

class ProfileStatuses {
 public:
  // Both references outlive it.
  ProfileStatuses(const Clock& clock, kube::KubeClient& client, ProfileSource profiles);

  // `key` is "<namespace>/<name>" of a TrainingProfile, which may be gone. Blocks on the API
  // server.
  Result<runtime::ReconcileResult> Reconcile(const std::string& key);

 private:
  const Clock& clock_;
  kube::KubeClient& client_;
  const ProfileSource profiles_;
  // What was written last, by key. It counts more than what the store shows: that may be older, or
  // somebody else's, and two operators that disagree must not write over each other for ever.
  std::map<std::string, api::Condition> written_;
};

}  // namespace ringmaster::job
