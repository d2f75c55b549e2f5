#include "operator/job/policy/protection_policy.h"

#include <algorithm>

#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// The one with which most is at stake. REQUIRES: there is one.
const control::ProtectionFault& WorstOf(const std::vector<control::ProtectionFault>& faults) {
  for (const char* what : {"restore", "checkpoint", "copy"}) {
    const auto found = std::find_if(faults.begin(), faults.end(),
                                    [&](const auto& fault) { return fault.what == what; });
    if (found != faults.end()) return *found;
  }
  return faults.front();
}

}  // namespace

std::optional<Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                         bool known) {
  if (faults.empty() && !known) return std::nullopt;
  Condition condition{.type = api::kProtected,
                      .status = ConditionStatus::kTrue,
                      .reason = api::kReasonKept,
                      .message = "the training's state is kept again"};
  if (!faults.empty()) {
    const control::ProtectionFault& fault = WorstOf(faults);
    condition.status = ConditionStatus::kFalse;
    if (fault.what == "restore") {
      condition.reason = api::kReasonCheckpointUnreadable;
      condition.message =
          "training waits for its kept state, which cannot be read or written now: it is tried "
          "again, and nothing is given up for it; ";
    } else if (fault.what == "checkpoint") {
      condition.reason = api::kReasonCheckpointFailing;
      condition.message =
          "training goes on, but no new checkpoints are complete, so a loss of all workers goes "
          "back to the last one; ";
    } else if (fault.what == "copy") {
      condition.reason = api::kReasonCopyFailing;
      condition.message =
          "training goes on, but no other worker holds a copy of a rank's share of the state, so "
          "its loss goes back to the last checkpoint; ";
    } else {
      condition.reason = api::kReasonSnapshotFailing;
      condition.message =
          "training goes on, but if all ranks end at once it goes back to the last checkpoint; ";
    }
    condition.message += fault.pod + ": " + fault.message;
  }
  return condition;
}

std::optional<Condition> JudgeBeginning(const std::optional<control::Beginning>& beginning) {
  if (!beginning) return std::nullopt;
  const bool restored = beginning->step > 0;
  return Condition{.type = api::kRestored,
                   .status = restored ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                   .reason = restored ? api::kReasonFromCheckpoint : api::kReasonStartedAfresh,
                   .message = beginning->message};
}

}  // namespace ringmaster::job
