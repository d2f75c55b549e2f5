#include "operator/job/policy/protection_policy.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

using api::Condition;
using api::ConditionStatus;

struct FaultKind {
  std::string_view what;  // ProtectionFault::what
  const char* reason;
  const char* effect;
};

constexpr std::string_view kCheckpoint = "checkpoint";

// The most serious first.
constexpr FaultKind kFaultKinds[]{
    {"restore", api::kReasonCheckpointUnreadable,
     "training waits because its saved state cannot be read or written; the access is retried and "
     "no state is discarded"},
    {kCheckpoint, api::kReasonCheckpointFailing,
     "training continues, but new checkpoints fail, so losing all workers would resume from the "
     "last complete one"},
    {"copy", api::kReasonCopyFailing,
     "training continues, but no other worker has a copy of a rank's shard of the state, so losing "
     "the rank would resume from the last checkpoint"},
    {"snapshot", api::kReasonSnapshotFailing,
     "training continues, but losing all ranks at once would resume from the last checkpoint"}};

// Returns the kind of a launcher's report; the least serious kind for a text that is not known.
const FaultKind* KindOf(const control::ProtectionFault& fault) {
  return std::ranges::find(std::begin(kFaultKinds), std::end(kFaultKinds) - 1, fault.what,
                           &FaultKind::what);
}

}  // namespace

bool CheckpointsFail(const std::vector<control::ProtectionFault>& faults) {
  return std::ranges::find(faults, kCheckpoint, &control::ProtectionFault::what) != faults.end();
}

std::optional<Condition> JudgeProtection(const std::vector<control::ProtectionFault>& faults,
                                         bool known) {
  if (faults.empty() && !known) return std::nullopt;
  Condition condition{.type = api::kProtected,
                      .status = ConditionStatus::kTrue,
                      .reason = api::kReasonKept,
                      .message = "the training state is saved again"};
  if (!faults.empty()) {
    const control::ProtectionFault& fault = *std::ranges::min_element(faults, {}, KindOf);
    const FaultKind& kind = *KindOf(fault);
    condition.status = ConditionStatus::kFalse;
    condition.reason = kind.reason;
    condition.message = std::string(kind.effect) + "; " + fault.pod + ": " + fault.message;
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
