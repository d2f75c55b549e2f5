#include "cli/verdict_sentence.h"

#include <algorithm>
#include <iterator>

#include <cli/reason_texts.h>
#include <nlohmann/json.hpp>

#include "operator/api/conditions.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using api::Condition;
using api::FindCondition;

// Returns the first of the conditions that may explain the state.
const Condition* ConditionOf(const api::TrainingJobStatus& status) {
  constexpr const char* kInOrder[] = {api::kFailed,    api::kSucceeded,    api::kStalled,
                                      api::kSuspended, api::kWorkersReady, api::kRunning,
                                      api::kResizing,  api::kCreated,      api::kReconciling};
  for (const char* type : kInOrder) {
    const Condition* condition = FindCondition(status.conditions, type);
    if (condition != nullptr && condition->reason == status.reason) return condition;
  }
  return nullptr;
}

std::string_view MessageOf(const Condition* condition) {
  return condition == nullptr ? std::string_view() : std::string_view(condition->message);
}

std::string Because(std::string_view reason, std::string_view message) {
  std::string text;
  if (!reason.empty()) text.append(", ").append(reason);
  if (!message.empty()) text.append(": ").append(message);
  return text;
}

template <std::size_t kN>
std::string_view TextOf(const WordText (&table)[kN], std::string_view word) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const WordText& entry) { return entry.word == word; });
  return found == std::end(table) ? std::string_view() : found->text;
}

Explanation InState(const api::TrainingJob& job) {
  const api::TrainingJobStatus& status = job.status;
  const Condition* condition = ConditionOf(status);
  Explanation explanation{.reason = status.reason};
  const std::string why = Because(explanation.reason, MessageOf(condition));
  if (status.state == "Running") {
    explanation.training = true;
    explanation.sentence =
        status.elasticity_mode == api::ElasticityMode::kRestart ? "runs" : "trains";
  } else if (status.state == "Succeeded") {
    explanation.sentence = "has succeeded" + why;
  } else if (status.state == "Failed") {
    explanation.sentence = "has failed" + why;
  } else if (status.state == "Suspended") {
    explanation.sentence = "is suspended and has no Pods";
    const std::string_view message = MessageOf(condition);
    const std::size_t where_it_resumes = message.find("; ");
    if (where_it_resumes != std::string_view::npos) {
      explanation.sentence += message.substr(where_it_resumes);
    }
    explanation.reason.clear();
    explanation.meaning = "To resume it: kubectl -n " + job.ns + " patch trainingjob " + job.name +
                          " --type=merge -p '{\"spec\": {\"suspend\": false}}'";
  } else if (status.state == "Paused") {
    explanation.sentence = "is paused and keeps its state" + why;
  } else {
    explanation.sentence = "does not train yet" + why;
  }
  return explanation;
}

// Returns true if the messages of Running and WorkersReady give the same reason. In a paused job,
// Running may say why Pods are missing, and WorkersReady why training is paused.
bool GiveSameReason(const api::TrainingJobStatus& status) {
  const std::string_view running = MessageOf(FindCondition(status.conditions, api::kRunning));
  const std::string_view ready = MessageOf(FindCondition(status.conditions, api::kWorkersReady));
  return running.ends_with(ready) || ready.ends_with(running);
}

void AddNotes(const api::TrainingJobStatus& status, std::vector<std::string>& also) {
  const auto add = [&](const char* type, api::ConditionStatus worth) {
    const Condition* condition = FindCondition(status.conditions, type);
    if (condition == nullptr || condition->status != worth) return;
    also.push_back(std::string(type) + Because(condition->reason, condition->message));
  };
  add(api::kChangePending, api::ConditionStatus::kTrue);
  add(api::kProtected, api::ConditionStatus::kFalse);
  add(api::kRestored, api::ConditionStatus::kFalse);
  if (status.state == "Paused" && !GiveSameReason(status)) {
    add(api::kWorkersReady, api::ConditionStatus::kFalse);
  }
  const Condition* isolated = FindCondition(status.conditions, api::kNetworkIsolated);
  if (isolated != nullptr && isolated->reason == api::kReasonPoliciesMissing) {
    add(api::kNetworkIsolated, api::ConditionStatus::kFalse);
  }
  if (status.state != "Running") return;
  for (const api::Straggler& slow : status.stragglers) {
    also.push_back("rank " + std::to_string(slow.rank) + " of " + slow.worker + " on " + slow.node +
                   " is slow: its part of a step takes " + std::to_string(slow.step_millis) +
                   " ms, the median is " + std::to_string(slow.median_millis) + " ms");
  }
}

}  // namespace

std::string_view MeaningOfReason(std::string_view reason) { return TextOf(kReasonTexts, reason); }
std::string_view MeaningOfCause(std::string_view cause) { return TextOf(kCauseTexts, cause); }

Explanation ExplainJob(const api::TrainingJob& job, const nlohmann::json& written) {
  const api::TrainingJobStatus& status = job.status;
  const std::string manager = kube::GetString(written, {"spec", "managedBy"});
  const bool elsewhere = !manager.empty() && manager != api::kManagedByOperator;
  const Condition* managed = FindCondition(status.conditions, api::kManaged);
  Explanation explanation;
  if (job.deleting) {
    explanation.sentence = "is being deleted";
    if (const Condition* removed = FindCondition(status.conditions, api::kCheckpointsRemoved)) {
      explanation.reason = removed->reason;
      explanation.sentence += Because(removed->reason, removed->message);
    }
  } else if (elsewhere) {
    explanation.sentence =
        "is managed by another controller, " + manager + ", which spec.managedBy names";
  } else if (managed != nullptr && managed->status == api::ConditionStatus::kFalse) {
    explanation.reason = managed->reason;
    explanation.sentence =
        "is not managed by any operator" + Because(managed->reason, managed->message);
  } else if (status.state.empty()) {
    explanation.sentence = "has not been processed by an operator yet";
    explanation.meaning =
        "If this lasts longer than a few seconds, \"kubectl trainingjob doctor\" says why.";
  } else {
    explanation = InState(job);
    AddNotes(status, explanation.also);
  }
  if (explanation.meaning.empty() && !explanation.training) {
    explanation.meaning = MeaningOfReason(explanation.reason);
  }
  return explanation;
}

}  // namespace ringmaster::cli
