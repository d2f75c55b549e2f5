#pragma once

// The inputs of one plan, with a clock that only the test moves. Used by the unit tests of job/;
// header only.
//
//   Scene scene{.job = RunningJob(), .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
//   scene.Answers(RunningWorld(3));
//   Plan plan = scene.Make();

#include <optional>
#include <string>
#include <vector>

#include "operator/job/model/plan.h"
#include "operator/job/planner/make_plan.h"
#include "tests/builders/job_builder.h"

namespace ringmaster::testing {

struct Scene {
  api::TrainingJob job;
  job::Observed observed;
  std::optional<job::LauncherView> launcher{};
  job::JobMemory memory{};
  // By default, there are two launchers, and the other job's launcher answers.
  job::LaunchersHeard launchers{.watched = 2, .unheard = 1};
  Clock::Time now{std::chrono::hours(1)};
  Clock::WallTime wall_now =
      std::chrono::system_clock::from_time_t(1'795'168'800);  // 2026-11-20T10:00:00Z

  job::PlanInput Input() const {
    return {.job = job,
            .observed = observed,
            .launcher = launcher,
            .memory = memory,
            .now = now,
            .wall_now = wall_now,
            .launchers = launchers};
  }
  job::Plan Make() const { return job::MakePlan(Input()); }

  // Sets the newest answer of the current launcher.
  void Answers(control::LauncherStatus status) {
    launcher.emplace();
    launcher->pod_uid = "uid-launcher-" + std::to_string(job.status.launcher_term);
    launcher->status = std::move(status);
    launcher->answered_since = now - std::chrono::minutes(1);
  }
  // Sets for how long, and for how many exchanges, the launcher has not answered.
  void Silent(std::chrono::milliseconds silence, int times = 3) {
    if (!launcher) launcher.emplace();
    launcher->pod_uid = "uid-launcher-" + std::to_string(job.status.launcher_term);
    launcher->silent_since = launcher->unheard_since = now - silence;
    launcher->unheard_times = times;
  }
  // Sets the workers in the last order that the operator sent to the launcher.
  void Ordered(const std::vector<int>& indices) {
    control::Order order;
    for (const int index : indices) {
      order.workers.push_back({.pod_uid = "uid-worker-" + std::to_string(index),
                               .pod = api::WorkerPodName("digits", index),
                               .node = "node-1",
                               .index = index});
    }
    launcher->order = std::make_shared<const control::Order>(std::move(order));
  }
};

inline api::TrainingJob RunningJob(int replicas = 3) {
  return JobBuilder().Replicas(replicas).Term(1).Condition(api::kCreated, "PodsCreated").Build();
}

// Returns a status in which workers 0 ... workers - 1 are ready members of epoch {1, 1}.
inline control::LauncherStatus RunningWorld(int workers) {
  control::LauncherStatus status;
  status.term = 1;
  status.epoch = {.term = 1, .number = 1};
  status.phase = control::LauncherPhase::kRunning;
  status.world_size = workers;
  for (int index = 0; index < workers; ++index) {
    control::WorkerReport& report = status.workers.emplace_back();
    report.pod_uid = "uid-worker-" + std::to_string(index);
    report.ready = report.member = true;
  }
  return status;
}

inline std::vector<std::string> DeletedNames(const job::Plan& plan) {
  std::vector<std::string> names;
  for (const job::PodDelete& pod : plan.deletes) names.push_back(pod.name);
  return names;
}

inline std::vector<std::string> OrderedNames(const job::Plan& plan) {
  std::vector<std::string> names;
  if (!plan.order) return names;
  for (const control::DesiredWorker& worker : plan.order->workers) names.push_back(worker.pod);
  return names;
}

inline std::vector<std::string> EventReasons(const job::Plan& plan) {
  std::vector<std::string> reasons;
  for (const job::PlannedEvent& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

}  // namespace ringmaster::testing
