#include "operator/job/planner/removal_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/cut_text.h"
#include "operator/api/names.h"

namespace ringmaster::job {

namespace {

// The interval of checks. The job does not own the removal Pod and is not queued when it changes.
constexpr std::chrono::milliseconds kLookForPods{500};
constexpr std::size_t kMostWordsOfPod = 512;

// Returns a Pod's message, which is untrusted, as one short line.
std::string OneLine(const std::string& text) {
  std::string line = CutText(text, kMostWordsOfPod);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string WordsOf(const PodView& pod) {
  if (!pod.container.ended_message.empty()) return OneLine(pod.container.ended_message);
  if (!pod.message.empty()) return OneLine(pod.message);
  return pod.container.terminated ? "exit code " + std::to_string(pod.container.exit_code)
                                  : "without a message";
}

std::string WhyItWaits(const PodView& pod) {
  if (!pod.unschedulable.empty()) return "it cannot be scheduled: " + OneLine(pod.unschedulable);
  if (!IsNormalWait(pod.container.waiting_reason)) {
    return pod.container.waiting_reason + ": " + OneLine(pod.container.waiting_message);
  }
  return pod.phase == PodPhase::kRunning ? "it is running" : "it has not started yet";
}

class RemovalPlanner {
 public:
  explicit RemovalPlanner(const RemovalInput& input)
      : in_(input), left_(in_.memory.since.value_or(in_.now) + kRemovalLimit - in_.now) {}

  RemovalPlan Make() {
    if (!in_.job.spec.DeletesCheckpoints()) {
      Release();
    } else if (in_.left_behind) {
      GiveUp("the operator no longer manages jobs of this namespace (excludeNamespaces)");
    } else if (const std::string waiting = EndPods(); !waiting.empty()) {
      WaitFor(api::kReasonEndingPods, waiting);
    } else if (in_.remover != nullptr) {
      FollowRemover(*in_.remover);
    } else {
      MakeRemover();
    }
    return std::move(plan_);
  }

 private:
  // Plans to delete the job's Pods. Returns a text about Pods that still run; empty if none do.
  std::string EndPods() {
    std::string names;
    for (const PodPtr& pod : in_.pods) {
      if (pod->Over()) continue;
      if (!pod->deleting) plan_.deletes.push_back({.name = pod->name, .uid = pod->uid});
      if (names.empty()) {
        names = pod->name + (pod->node.empty() ? "" : " on node " + pod->node);
      }
    }
    return names.empty() ? names : "its Pods have not terminated yet (" + names + ")";
  }

  void FollowRemover(const PodView& pod) {
    // An earlier operator process or another client created the Pod, so its work is unknown.
    if (pod.uid != in_.memory.pod_uid) {
      if (!pod.deleting) plan_.deletes.push_back({.name = pod.name, .uid = pod.uid});
      return WaitFor(api::kReasonRemoving, "an earlier Pod " + pod.name + " is being deleted");
    }
    if (!pod.Over())
      return WaitFor(api::kReasonRemoving,
                     "the Pod " + pod.name + " removes them: " + WhyItWaits(pod));
    if (!pod.Completed()) {
      const std::string reason = pod.reason.empty() ? pod.container.ended_reason : pod.reason;
      return GiveUp("the Pod " + pod.name + " failed" +
                    (reason.empty() ? "" : " (" + OneLine(reason) + ")") + ": " + WordsOf(pod));
    }
    SetEvent(false, api::kEventCheckpointsRemoved,
             "Removed " + OwnFolderOf(in_.job) + " from the checkpoint volume: " + WordsOf(pod));
    Release();
  }

  void MakeRemover() {
    if (!in_.violations.empty()) {
      return GiveUp("cannot create Pods for this job: " + in_.violations.front().Text());
    }
    const std::optional<Refusal>& refusal = in_.memory.refusal;
    if (refusal && in_.memory.for_good) return GiveUp(refusal->message);
    if (refusal && in_.now < refusal->retry_at) {
      return WaitFor(ReasonOf(refusal->cause),
                     "the Pod that removes them cannot be created: " + refusal->message);
    }
    WaitFor(api::kReasonRemoving,
            "the Pod " + api::CleanUpPodName(in_.job.name, in_.job.uid) + " is being created");
    plan_.create_pod = !plan_.release;
  }

  void WaitFor(std::string reason, std::string what) {
    if (left_ <= Clock::Time::duration::zero()) {
      return GiveUp("it took longer than " + std::to_string(kRemovalLimit.count()) + " s; " + what);
    }
    plan_.waiting_reason = std::move(reason);
    plan_.waiting_for = std::move(what);
    plan_.requeue_after =
        std::min(kLookForPods, std::chrono::ceil<std::chrono::milliseconds>(left_));
  }

  void GiveUp(const std::string& why) {
    SetEvent(true, api::kEventCheckpointsLeft,
             "Left " + OwnFolderOf(in_.job) + " on the checkpoint volume: " + why +
                 ". Remove the folder by hand");
    Release();
  }

  void SetEvent(bool warning, const char* reason, std::string note) {
    plan_.event = {.warning = warning,
                   .reason = reason,
                   .action = api::kActionDelete,
                   .note = std::move(note)};
  }

  void Release() {
    plan_.release = true;
    if (in_.remover != nullptr && !in_.remover->deleting) {
      plan_.deletes.push_back({.name = in_.remover->name, .uid = in_.remover->uid});
    }
  }

  const RemovalInput& in_;
  const Clock::Time::duration left_;
  RemovalPlan plan_;
};

}  // namespace

RemovalPlan PlanRemoval(const RemovalInput& input) { return RemovalPlanner(input).Make(); }

std::string OwnFolderOf(const api::TrainingJob& job) {
  return job.ns + "/" + job.name + "/" + job.uid;
}

}  // namespace ringmaster::job
