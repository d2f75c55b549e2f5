#include "operator/job/policy/change_policy.h"

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::size_t kMostFieldsNamed = 5;
constexpr int kDepthNamed = 4;

const json& MemberOf(const json& object, const std::string& key) {
  static const json kAbsent;
  const auto found = object.find(key);
  return found == object.end() ? kAbsent : *found;
}

void Compare(const json& before, const json& after, const std::string& path, int depth,
             std::vector<std::string>& fields) {
  if (before == after || fields.size() >= kMostFieldsNamed) return;
  if (depth == 0 || !before.is_object() || !after.is_object()) return fields.push_back(path);
  for (const auto& [key, value] : before.items()) {
    Compare(value, MemberOf(after, key), path + "." + key, depth - 1, fields);
  }
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key)) Compare(json(), value, path + "." + key, depth - 1, fields);
  }
}

}  // namespace

std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today) {
  if (today.texts == api::TrainingJobSpec::Texts::kTooLong) return {today.longest_text};
  std::vector<std::string> fields;
  Compare(api::EncodeRunSpec(pinned), api::EncodeRunSpec(today), "spec", kDepthNamed, fields);
  return fields;
}

std::optional<api::Condition> NoticeOfChange(const std::vector<std::string>& changed,
                                             const api::TrainingJobStatus& status) {
  const bool ended = api::IsTerminal(status);
  const bool refused = !changed.empty() && !ended;
  const bool known = api::FindCondition(status.conditions, api::kChangeRefused) != nullptr;
  if (!refused && !known) return std::nullopt;
  api::Condition notice{.type = api::kChangeRefused, .status = api::ConditionStatus::kFalse};
  if (refused) {
    std::string fields;
    for (const std::string& field : changed) fields += (fields.empty() ? "" : ", ") + field;
    notice.status = api::ConditionStatus::kTrue;
    notice.reason = api::kReasonChangedWhileRunning;
    notice.message =
        "the job goes on with the spec that it was started with, because all its Pods are "
        "made from one; changed since: " +
        fields +
        ". Set spec.runPolicy.suspend to true, wait for the condition Suspended and set it to "
        "false to run with the changed spec, or change it back";
  } else if (ended) {
    notice.reason = api::kReasonFinished;
    notice.message = "the job has ended";
  } else {
    notice.reason = api::kReasonSpecInUse;
    notice.message = "the job's spec is the one its Pods get";
  }
  return notice;
}

}  // namespace ringmaster::job
