// Compares the operator's status of TrainingJobs in all states with tests/health/jobs.json. The
// tests of tests/health check how kstatus and Argo CD, which do not know TrainingJobs, interpret
// that file. RINGMASTER_RECORD=1 writes the file again.

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/control/reasons.h"
#include "operator/api/codec.h"
#include "tests/builders/plan_scene.h"
#include "tests/paths.h"

namespace ringmaster::job {
namespace {

using ringmaster::testing::JobBuilder;
using ringmaster::testing::PodBuilder;
using ringmaster::testing::RunningJob;
using ringmaster::testing::RunningWorld;
using ringmaster::testing::Scene;
using ringmaster::testing::SceneBuilder;
using Json = nlohmann::ordered_json;
using Phase = control::LauncherPhase;

const std::string kFile = FromBuild(RINGMASTER_TOOL_STATUS);

Json Document(const api::TrainingJob& job) {
  Json document{
      {"apiVersion", api::kApiVersion},
      {"kind", api::kKind},
      {"metadata", {{"namespace", job.ns}, {"name", job.name}, {"generation", job.generation}}}};
  const bool unseen = job.status == api::TrainingJobStatus{};
  if (!unseen) document["status"] = api::EncodeStatus(job.status);
  return document;
}

// Returns the job after the operator has reconciled it once more.
api::TrainingJob After(const Scene& scene) {
  api::TrainingJob job = scene.job;
  job.status = scene.Make().status;
  return job;
}

Scene WithPods(const api::TrainingJob& job) {
  return {.job = job, .observed = SceneBuilder(job).Launcher().Workers(3).Build()};
}

api::TrainingJob AfterAnswer(const api::TrainingJob& job, control::LauncherStatus answer) {
  Scene scene = WithPods(job);
  scene.Answers(std::move(answer));
  return After(scene);
}

control::LauncherStatus InPhase(Phase phase) {
  control::LauncherStatus answer = RunningWorld(3);
  answer.phase = phase;
  return answer;
}

api::TrainingJob Running() { return AfterAnswer(RunningJob(), RunningWorld(3)); }

// Returns the job after a change of its spec that the operator has not seen yet.
api::TrainingJob Changed(api::TrainingJob job, bool suspend) {
  ++job.generation;
  job.spec.suspend = suspend;
  return job;
}

api::TrainingJob AfterEnd(const control::Verdict& verdict) {
  const api::TrainingJob job = Running();
  return After(
      {.job = job,
       .observed =
           SceneBuilder(job).With(PodBuilder::Launcher(1).EndedWith(verdict)).Workers(3).Build()});
}

Json Jobs() {
  const api::TrainingJob fresh = JobBuilder().Build();
  const api::TrainingJob running = Running();

  control::LauncherStatus waiting;
  waiting.term = 1;
  waiting.phase = Phase::kWaitingForAgents;
  control::LauncherStatus paused = InPhase(Phase::kPaused);
  paused.pause_reason = control::kPauseBelowMinReplicas;

  const Scene empty{.job = fresh, .observed = SceneBuilder(fresh).NoServices().Build()};
  const Scene launcher_lost{.job = running, .observed = SceneBuilder(running).Workers(3).Build()};
  Scene suspending = WithPods(Changed(running, true));
  suspending.Answers(RunningWorld(3));
  Scene without_pods{.job = After(suspending), .observed = SceneBuilder(running).Build()};
  const api::TrainingJob suspended = After(without_pods);
  without_pods.job = Changed(suspended, false);
  Scene refused = empty;
  refused.memory.refusal = Refusal{.cause = RefusalCause::kInvalidSpec,
                                   .message = "spec.worker.template.spec.hostPID is refused",
                                   .stalled = true,
                                   .retry_at = refused.now + std::chrono::minutes(1)};
  Scene corrected = empty;
  corrected.job = Changed(After(refused), false);

  Json jobs;
  jobs["unseen"] = Document(fresh);
  jobs["pending"] = Document(After(empty));
  jobs["starting"] = Document(AfterAnswer(RunningJob(), waiting));
  jobs["running"] = Document(running);
  jobs["recovering"] = Document(AfterAnswer(running, InPhase(Phase::kForming)));
  jobs["restarting"] = Document(AfterAnswer(running, InPhase(Phase::kStopping)));
  jobs["launcherLost"] = Document(After(launcher_lost));
  jobs["paused"] = Document(AfterAnswer(running, paused));
  jobs["changed"] = Document(Changed(running, false));
  jobs["suspending"] = Document(After(suspending));
  jobs["suspended"] = Document(suspended);
  jobs["resumed"] = Document(After(without_pods));
  jobs["succeeded"] = Document(AfterEnd({.succeeded = true, .message = "all ranks ended well"}));
  jobs["failed"] = Document(AfterEnd(
      {.succeeded = false, .reason = control::kReasonRankFailed, .message = "rank 1 failed"}));
  jobs["refused"] = Document(After(refused));
  jobs["correcting"] = Document(corrected.job);
  jobs["corrected"] = Document(After(corrected));
  return jobs;
}

// Writes one line for each job.
void Write(const Json& jobs) {
  std::ofstream file(kFile);
  const char* before = "{\n";
  for (const auto& [name, job] : jobs.items()) {
    file << before << Json(name) << ": " << job;
    before = ",\n";
  }
  file << "\n}\n";
}

TEST(ToolStatus, TheJobsOfTestsHealthAreDescribedAsTheOperatorDoes) {
  const Json jobs = Jobs();
  if (std::getenv("RINGMASTER_RECORD") != nullptr) Write(jobs);
  const Json recorded = Json::parse(std::ifstream(kFile), nullptr, false);

  ASSERT_TRUE(recorded.is_object()) << kFile;
  for (const auto& [name, job] : jobs.items()) {
    EXPECT_EQ(recorded.value(name, Json()), job)
        << name
        << ": where that is meant, run this with RINGMASTER_RECORD=1 and commit what changes";
  }
  EXPECT_EQ(recorded.size(), jobs.size());
}

}  // namespace
}  // namespace ringmaster::job
