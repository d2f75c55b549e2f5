#include "operator/api/conditions.h"

#include <algorithm>
#include <utility>

#include "common/base/cut_text.h"
#include "operator/api/names.h"

namespace ringmaster::api {
namespace {

// The longest message of a condition. An error of the API server may repeat the whole request. The
// CRD allows 32 KiB, and the API server would reject a status with a longer message.
constexpr std::size_t kMaxMessageBytes = 4096;
// The longest reason, which may come from a kubelet. An event's reason has at most 128 bytes.
constexpr std::size_t kMaxReasonBytes = 128;

}  // namespace

void SetCondition(std::vector<Condition>& conditions, Condition condition, const std::string& now) {
  condition.message = CutText(std::move(condition.message), kMaxMessageBytes);
  condition.reason = CutText(std::move(condition.reason), kMaxReasonBytes);
  if (condition.reason.empty()) condition.reason = kReasonUnknown;
  const auto found = std::find_if(conditions.begin(), conditions.end(), [&](const Condition& have) {
    return have.type == condition.type;
  });
  if (found == conditions.end()) {
    condition.last_transition_time = now;
    conditions.push_back(std::move(condition));
    return;
  }
  const bool changed = found->status != condition.status || found->last_transition_time.empty();
  condition.last_transition_time = changed ? now : found->last_transition_time;
  *found = std::move(condition);
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const Condition& have) { return have.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool IsTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* found = FindCondition(conditions, type);
  return found != nullptr && found->status == ConditionStatus::kTrue;
}

bool IsTerminal(const TrainingJobStatus& status) {
  return IsTrue(status.conditions, kSucceeded) || IsTrue(status.conditions, kFailed);
}

}  // namespace ringmaster::api
