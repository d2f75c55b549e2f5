#include "operator/job/policy/change_policy.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "operator/api/codec.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/api/typed_fields.h"

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

// Collects the differences of two documents, down to kDepthNamed levels. For values that a typed
// field wrote into a template, it names the typed field.
class Comparison {
 public:
  explicit Comparison(std::vector<api::TypedField> typed) : typed_(std::move(typed)) {}

  void Compare(const json& before, const json& after, const std::string& path, int depth) {
    if (before == after || fields_.size() >= kMostFieldsNamed) return;
    const std::vector<std::string> inside = TypedInside(path);
    const bool deeper = (depth > 0 || !inside.empty()) && !IsTyped(path);
    if (deeper && before.is_object() && after.is_object()) {
      for (const auto& [key, value] : before.items()) {
        Compare(value, MemberOf(after, key), ChildOf(path, key), depth - 1);
      }
      for (const auto& [key, value] : after.items()) {
        if (!before.contains(key)) Compare(json(), value, ChildOf(path, key), depth - 1);
      }
    } else if (!inside.empty() && before.is_array() && after.is_array()) {
      for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
        Compare(i < before.size() ? before[i] : json(), i < after.size() ? after[i] : json(),
                path + "[" + std::to_string(i) + "]", depth - 1);
      }
    } else if (!inside.empty() && (before.is_null() || after.is_null())) {
      for (const std::string& field : inside) Add(field);
    } else {
      Add(api::PathAsWritten(typed_, path));
    }
  }

  std::vector<std::string> Take() { return std::move(fields_); }

 private:
  static std::string ChildOf(const std::string& path, const std::string& key) {
    return path.ends_with(".limits") ? path + "[" + key + "]" : path + "." + key;
  }

  bool IsTyped(const std::string& path) const {
    return std::any_of(typed_.begin(), typed_.end(),
                       [&](const api::TypedField& field) { return field.in_template == path; });
  }
  // Returns the typed fields that set a value below the path.
  std::vector<std::string> TypedInside(const std::string& path) const {
    std::vector<std::string> inside;
    for (const api::TypedField& field : typed_) {
      if (api::IsBelow(field.in_template, path)) inside.push_back(field.path);
    }
    return inside;
  }

  void Add(const std::string& field) {
    const bool known = std::find(fields_.begin(), fields_.end(), field) != fields_.end();
    if (!known && fields_.size() < kMostFieldsNamed) fields_.push_back(field);
  }

  const std::vector<api::TypedField> typed_;
  std::vector<std::string> fields_;
};

}  // namespace

std::vector<std::string> ChangedFields(const api::TrainingJobSpec& pinned,
                                       const api::TrainingJobSpec& today) {
  if (today.texts == api::TrainingJobSpec::Texts::kTooLong) return {today.longest_text};
  std::vector<std::string> unusable;
  for (const api::FieldProblem& problem : today.problems) unusable.push_back(problem.path);
  if (!unusable.empty()) return unusable;
  Comparison comparison(api::TypedFieldsOf(today, pinned));
  comparison.Compare(api::EncodeRunSpec(pinned), api::EncodeRunSpec(today), "spec", kDepthNamed);
  return comparison.Take();
}

std::optional<api::Condition> NoticeOfChange(const std::vector<std::string>& changed,
                                             const api::TrainingJobStatus& status) {
  const bool ended = api::IsTerminal(status);
  const bool refused = !changed.empty() && !ended;
  const bool known = api::FindCondition(status.conditions, api::kChangePending) != nullptr;
  if (!refused && !known) return std::nullopt;
  api::Condition notice{.type = api::kChangePending, .status = api::ConditionStatus::kFalse};
  if (refused) {
    notice.status = api::ConditionStatus::kTrue;
    notice.reason = api::kReasonChangedWhileRunning;
    notice.message =
        "the job still runs with the spec that it was started with; changed since then in the job "
        "or its TrainingProfile: " +
        ListText(changed) +
        ". To apply the change, set spec.suspend to true, wait for the condition Suspended and set "
        "it to false; or revert the change";
  } else if (ended) {
    notice.reason = api::kReasonFinished;
    notice.message = "the job has ended";
  } else {
    notice.reason = api::kReasonSpecInUse;
    notice.message = "the job runs with its current spec";
  }
  return notice;
}

}  // namespace ringmaster::job
