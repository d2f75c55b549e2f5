#include "operator/job/policy/protection_policy.h"

#include <algorithm>

#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

// Returns the most serious fault. REQUIRES: `faults` is not empty.
const control::ProtectionFault& WorstOf(const std::vector<control::ProtectionFault>& faults) {
  return *std::ranges::min_element(faults, {}, KindOf);
}

}  // namespace

FaultKind KindOf(const control::ProtectionFault& fault) {
  if (fault.what == "restore") return FaultKind::kRestore;
  if (fault.what == "checkpoint") return FaultKind::kCheckpoint;
  return fault.what == "copy" ? FaultKind::kCopy : FaultKind::kSnapshot;
}

std::optional<Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                         bool known) {
  if (faults.empty() && !known) return std::nullopt;
  Condition condition{.type = api::kProtected,
                      .status = ConditionStatus::kTrue,
                      .reason = api::kReasonKept,
                      .message = "the training state is saved again"};
  if (!faults.empty()) {
    const control::ProtectionFault& fault = WorstOf(faults);
    condition.status = ConditionStatus::kFalse;
    switch (KindOf(fault)) {
      case FaultKind::kRestore:
        condition.reason = api::kReasonCheckpointUnreadable;
        condition.message =
            "training waits because its saved state cannot be read or written; the access is "
            "retried and no state is discarded; ";
        break;
      case FaultKind::kCheckpoint:
        condition.reason = api::kReasonCheckpointFailing;
        condition.message =
            "training continues, but new checkpoints fail, so losing all workers would resume "
            "from the last complete one; ";
        break;
      case FaultKind::kCopy:
        condition.reason = api::kReasonCopyFailing;
        condition.message =
            "training continues, but no other worker has a copy of a rank's shard of the state, so "
            "losing the rank would resume from the last checkpoint; ";
        break;
      case FaultKind::kSnapshot:
        condition.reason = api::kReasonSnapshotFailing;
        condition.message =
            "training continues, but losing all ranks at once would resume from the last "
            "checkpoint; ";
        break;
    }
    condition.message += fault.pod + ": " + fault.message;
  }
  return condition;
}

std::optional<Condition> JudgeRestored(const std::optional<control::Beginning>& beginning) {
  if (!beginning) return std::nullopt;
  const bool restored = beginning->step > 0;
  return Condition{.type = api::kRestored,
                   .status = restored ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                   .reason = restored ? api::kReasonFromCheckpoint : api::kReasonStartedAfresh,
                   .message = beginning->message};
}

}  // namespace ringmaster::job
