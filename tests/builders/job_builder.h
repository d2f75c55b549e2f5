#pragma once

// Builds test objects. A test sets only what differs from an ordinary job of three workers. Used by
// the unit tests of api/ and job/; header only.
//
//   api::TrainingJob job = JobBuilder().Replicas(2).Term(1).Build();
//   Observed seen = SceneBuilder(job).Launcher(1).Worker(0).Worker(1, PodPhase::kFailed).Build();

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/control/verdict.h"
#include "operator/api/names.h"
#include "operator/api/types.h"
#include "operator/job/model/observed.h"
#include "operator/job/model/views.h"

namespace ringmaster::testing {

inline constexpr char kJobUid[] = "11111111-2222-3333-4444-555555555555";

class JobBuilder {
 public:
  JobBuilder() {
    job_.ns = "team-a";
    job_.name = "digits";
    job_.uid = kJobUid;
    job_.resource_version = "100";
    job_.generation = 1;
    job_.spec.image = "registry.example.com/worker:1";
    job_.spec.command = {"ringmaster-train", "--workload=mnist"};
    job_.spec.worker.replicas = 3;
  }
  JobBuilder& Replicas(int replicas) {
    job_.spec.worker.replicas = replicas;
    return *this;
  }
  JobBuilder& Term(int64_t term) {
    job_.status.launcher_term = term;
    return *this;
  }
  JobBuilder& Command(std::vector<std::string> command) {
    job_.spec.command = std::move(command);
    return *this;
  }
  JobBuilder& WorkerTemplate(std::string text) {
    job_.spec.worker.template_json = std::move(text);
    return *this;
  }
  JobBuilder& LauncherTemplate(std::string text) {
    job_.spec.launcher_template_json = std::move(text);
    return *this;
  }
  JobBuilder& Checkpoint(api::CheckpointSpec checkpoint) {
    job_.spec.checkpoint = std::move(checkpoint);
    return *this;
  }
  JobBuilder& DataCache(api::DataCacheSpec cache) {
    job_.spec.data_cache = std::move(cache);
    return *this;
  }
  JobBuilder& RunPolicy(api::RunPolicy policy) {
    job_.spec.run_policy = std::move(policy);
    return *this;
  }
  JobBuilder& StartedAt(std::string time) {
    job_.status.start_time = std::move(time);
    return *this;
  }
  JobBuilder& Status(api::TrainingJobStatus status) {
    job_.status = std::move(status);
    return *this;
  }
  JobBuilder& Condition(const char* type, const char* reason,
                        api::ConditionStatus status = api::ConditionStatus::kTrue) {
    job_.status.conditions.push_back({.type = type,
                                      .status = status,
                                      .reason = reason,
                                      .message = "",
                                      .last_transition_time = "2026-11-20T10:00:00Z",
                                      .observed_generation = 1});
    return *this;
  }
  api::TrainingJob Build() const { return job_; }

 private:
  api::TrainingJob job_;
};

class PodBuilder {
 public:
  static PodBuilder Worker(int index) {
    PodBuilder builder;
    builder.pod_.name = api::WorkerPodName("digits", index);
    builder.pod_.role = job::Role::kWorker;
    builder.pod_.index = index;
    builder.pod_.uid = "uid-worker-" + std::to_string(index);
    return builder;
  }
  static PodBuilder Launcher(int64_t term) {
    PodBuilder builder;
    builder.pod_.name = api::LauncherPodName("digits", term);
    builder.pod_.role = job::Role::kLauncher;
    builder.pod_.term = term;
    builder.pod_.uid = "uid-launcher-" + std::to_string(term);
    builder.pod_.ip = "10.1.0.9";
    return builder;
  }
  PodBuilder& Phase(job::PodPhase phase) {
    pod_.phase = phase;
    return *this;
  }
  PodBuilder& Deleting() {
    pod_.deleting = true;
    return *this;
  }
  PodBuilder& Leaving(std::string reason) {
    pod_.leaving = std::move(reason);
    return *this;
  }
  PodBuilder& OnNode(std::string node) {
    pod_.node = std::move(node);
    return *this;
  }
  PodBuilder& ScheduledAt(std::string time) {
    pod_.scheduled_at = std::move(time);
    return *this;
  }
  // Marks the Pod as being deleted by the cluster for `reason`, such as an eviction.
  PodBuilder& Disrupted(std::string reason) {
    pod_.deleting = true;
    pod_.disruption = std::move(reason);
    return *this;
  }
  PodBuilder& Waiting(std::string reason, std::string message) {
    pod_.phase = job::PodPhase::kPending;
    pod_.container.waiting_reason = std::move(reason);
    pod_.container.waiting_message = std::move(message);
    return *this;
  }
  PodBuilder& Ended(int exit_code, std::string reason, std::string message = "",
                    std::string finished_at = "2026-11-20T10:05:00Z") {
    pod_.phase = exit_code == 0 ? job::PodPhase::kSucceeded : job::PodPhase::kFailed;
    pod_.container.terminated = true;
    pod_.container.exit_code = exit_code;
    pod_.container.ended_reason = std::move(reason);
    pod_.container.ended_message = std::move(message);
    pod_.container.finished_at = std::move(finished_at);
    return *this;
  }
  // Says of sidecars too that they have terminated.
  PodBuilder& ContainersEnded() {
    pod_.containers_ended = true;
    return *this;
  }
  PodBuilder& EndedWith(const control::Verdict& verdict) {
    return Ended(verdict.succeeded ? 0 : 1, verdict.succeeded ? "Completed" : "Error",
                 control::EncodeVerdict(verdict));
  }
  PodBuilder& Unschedulable(std::string message) {
    pod_.phase = job::PodPhase::kPending;
    pod_.node.clear();
    pod_.unschedulable = std::move(message);
    return *this;
  }
  job::PodPtr Build() const { return std::make_shared<const job::PodView>(pod_); }

 private:
  PodBuilder() {
    pod_.ns = "team-a";
    pod_.owner_uid = kJobUid;
    pod_.node = "node-1";
    pod_.phase = job::PodPhase::kRunning;
    pod_.created_at = "2026-11-20T10:00:00Z";
    pod_.resource_version = "50";
  }
  job::PodView pod_;
};

// Builds the result of Observe() for the added Pods. Services exist unless a test removes them.
class SceneBuilder {
 public:
  explicit SceneBuilder(const api::TrainingJob& job) : job_(job) {
    scene_.next_term = job.status.launcher_term + 1;
    auto worker = std::make_shared<job::ServiceView>();
    worker->name = job.name;
    scene_.worker_service = worker;
    auto launcher = std::make_shared<job::ServiceView>();
    launcher->name = job.name + "-launcher";
    launcher->cluster_ip = "10.96.0.7";
    launcher->term = job.status.launcher_term;
    scene_.launcher_service = launcher;
  }
  SceneBuilder& NoServices() {
    scene_.worker_service = nullptr;
    scene_.launcher_service = nullptr;
    return *this;
  }
  SceneBuilder& With(const PodBuilder& builder) {
    job::PodPtr pod = builder.Build();
    if (pod->role == job::Role::kLauncher) {
      // The first launcher's Pod may exist before the status contains a term (see observe.cc).
      if (pod->term == std::max<int64_t>(1, job_.status.launcher_term)) {
        scene_.launcher = pod;
      } else {
        scene_.old_launchers.push_back(pod);
      }
      return *this;
    }
    if (pod->deleting) {
      scene_.deleting.push_back(pod);
    } else if (pod->Completed()) {
      scene_.completed.push_back(pod);
    } else if (pod->Ended()) {
      scene_.failed.push_back(pod);
    } else {
      scene_.live.push_back(pod);
    }
    return *this;
  }
  // Adds a node of the job, and marks the Nodes as known to the operator.
  SceneBuilder& Node(const std::string& name, bool ready = true) {
    job::NodeView node;
    node.name = name;
    node.ready = ready;
    if (!ready) node.not_ready_reason = "NodeStatusUnknown";
    return With(node);
  }
  SceneBuilder& With(const job::NodeView& node) {
    scene_.nodes.known = true;
    scene_.nodes.of_job[node.name] = std::make_shared<const job::NodeView>(node);
    return *this;
  }
  // Sets the node counts of the whole cluster.
  SceneBuilder& NodesNotReady(int not_ready, int total) {
    scene_.nodes.not_ready = not_ready;
    scene_.nodes.total = total;
    return *this;
  }
  SceneBuilder& Launcher() { return With(PodBuilder::Launcher(job_.status.launcher_term)); }
  SceneBuilder& Workers(int count) {
    for (int index = 0; index < count; ++index) With(PodBuilder::Worker(index));
    return *this;
  }
  job::Observed Build() { return scene_; }

 private:
  api::TrainingJob job_;
  job::Observed scene_;
};

}  // namespace ringmaster::testing
