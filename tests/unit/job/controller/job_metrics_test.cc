#include "operator/job/controller/job_metrics.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/job/model/foreign_times.h"
#include "operator/kube/object_meta.h"
#include "tests/builders/job_builder.h"
#include "tests/fakes/fake_clock.h"

namespace ringmaster::job {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr char kGpuTemplate[] =
    R"({"spec":{"containers":[{"name":"worker","resources":{"limits":{"nvidia.com/gpu":8}}}]}})";

api::TrainingJob JobOf(const char* ns, const char* uid, const char* state, int members = 0) {
  api::TrainingJob job = testing::JobBuilder().Replicas(4).WorkerTemplate(kGpuTemplate).Build();
  job.ns = ns;
  job.uid = uid;
  job.created_at = "2026-11-20T09:59:00Z";  // a minute before the fake clock's initial time
  job.status.state = state;
  job.status.workers.members = members;
  return job;
}

api::TrainingJob Training(const char* uid, int members, int64_t step) {
  api::TrainingJob job = JobOf("team-a", uid, api::kStateRunning, members);
  job.status.epoch = 1;
  job.status.conditions = {{.type = api::kRunning,
                            .status = api::ConditionStatus::kTrue,
                            .reason = api::kReasonTraining}};
  job.status.progress = api::JobProgress{.step = step};
  return job;
}

Jobs Shared(const std::vector<api::TrainingJob>& jobs) {
  Jobs shared;
  for (const auto& job : jobs) shared.push_back(std::make_shared<const api::TrainingJob>(job));
  return shared;
}

TEST(JobGauges, CountsPhasesAndGpusOfWhatIsWantedAndWhatTrains) {
  const FakeClock clock;
  api::TrainingJob forming = Training("forming", 4, 1);
  forming.status.conditions[0].reason = api::kReasonStopping;
  api::TrainingJob done = JobOf("team-a", "done", api::kStateSucceeded, 4);
  done.status.conditions = {{.type = api::kSucceeded, .status = api::ConditionStatus::kTrue}};

  const JobGauges gauges = CountJobs(
      Shared({Training("all", 4, 1), Training("some", 3, 1), forming, JobOf("team-a", "new", ""),
              done, JobOf("team-b", "suspended", api::kStateSuspended)}),
      {}, clock.Now(), clock.WallNow());

  EXPECT_EQ(gauges.by_phase, (std::map<std::string, int>{{"Failed", 0},
                                                         {"Paused", 0},
                                                         {"Pending", 1},
                                                         {"Running", 3},
                                                         {"Starting", 0},
                                                         {"Succeeded", 1},
                                                         {"Suspended", 1}}));
  EXPECT_EQ(gauges.by_namespace.at("team-a").gpus_requested, 4 * 4 * 8);
  EXPECT_EQ(gauges.by_namespace.at("team-a").gpus_productive, (4 + 3) * 8);
  EXPECT_EQ(gauges.by_namespace.at("team-b").gpus_requested, 0);
}

TEST(JobGauges, TellTheLongestWaitOfEachPhase) {
  const FakeClock clock;
  api::TrainingJob younger = JobOf("team-a", "younger", api::kStatePending);
  younger.created_at = "2026-11-20T09:59:50Z";

  const JobGauges gauges = CountJobs(Shared({younger, JobOf("team-a", "older", api::kStatePending),
                                             JobOf("team-b", "starting", api::kStateStarting)}),
                                     {}, clock.Now(), clock.WallNow());

  EXPECT_EQ(gauges.by_namespace.at("team-a").longest_wait,
            (std::map<std::string, FloatSeconds>{{"Pending", seconds(60)}}));
  EXPECT_EQ(gauges.by_namespace.at("team-b").longest_wait,
            (std::map<std::string, FloatSeconds>{{"Starting", seconds(60)}}));
}

TEST(JobGauges, AStallLastsSinceTheStepWasLastSeenToChange) {
  FakeClock clock;
  StallWatch stalls;
  stalls.See(Shared({Training("stuck", 4, 7), Training("moving", 4, 7)}), clock.Now());
  clock.Advance(seconds(30));
  const Jobs jobs = Shared({Training("stuck", 4, 7), Training("moving", 4, 8)});
  stalls.See(jobs, clock.Now());

  EXPECT_EQ(stalls.StillFor("stuck", clock.Now()), seconds(30));
  EXPECT_EQ(stalls.StillFor("moving", clock.Now()), seconds(0));
  EXPECT_EQ(
      CountJobs(jobs, stalls, clock.Now(), clock.WallNow()).by_namespace.at("team-a").longest_stall,
      seconds(30));

  api::TrainingJob paused = Training("stuck", 4, 7);
  paused.status.state = api::kStatePaused;
  stalls.See(Shared({paused}), clock.Now());
  EXPECT_FALSE(stalls.Watches("stuck"));
  EXPECT_FALSE(CountJobs(Shared({paused}), stalls, clock.Now(), clock.WallNow())
                   .by_namespace.at("team-a")
                   .longest_stall);
}

// Puts a job into the store, as a reflector does.
void Put(JobStore& store, const json& job) {
  ASSERT_TRUE(store.Apply(job, *kube::ReadObjectMeta(job)).ok());
}

json Manifest(const char* name, const char* state, const char* managed_by) {
  return {{"metadata", {{"name", name}, {"namespace", "team-a"}, {"uid", name}}},
          {"spec",
           {{"image", "i"},
            {"command", {"x"}},
            {"worker", {{"replicas", 2}, {"template", json::parse(kGpuTemplate)}}},
            {"managedBy", managed_by}}},
          {"status", {{"state", state}}}};
}

class JobMetricsTest : public ::testing::Test {
 protected:
  std::string Text(bool leading = true) {
    std::vector<prometheus::MetricFamily> families = registry.Collect();
    metrics.Collect(leading, families);
    return prometheus::TextSerializer().Serialize(families);
  }
  bool Says(const std::string& line, bool leading = true) {
    return ("\n" + Text(leading)).find("\n" + line + "\n") != std::string::npos;
  }

  FakeClock clock;
  prometheus::Registry registry;
  JobStore jobs{api::DecodeTrainingJob};
  JobMetrics metrics{
      registry, clock, jobs, {.installation = "us/lease", .excluded_namespaces = {"team-b"}}};
};

TEST_F(JobMetricsTest, OnlyALeaderSaysWhereJobsStand) {
  Put(jobs, Manifest("a", "Pending", ""));
  Put(jobs, Manifest("b", "Running", api::kManagedByOperator));
  Put(jobs, Manifest("c", "Running", "kueue.x-k8s.io/multikueue"));
  nlohmann::json others = Manifest("d", "Running", "");
  others["status"]["installation"] = "them/lease";
  Put(jobs, others);
  nlohmann::json excluded = Manifest("e", "Running", "");
  excluded["metadata"]["namespace"] = "team-b";
  Put(jobs, excluded);

  EXPECT_TRUE(Says("ringmaster_jobs{phase=\"Running\"} 1")) << Text();
  EXPECT_TRUE(Says("ringmaster_jobs{phase=\"Failed\"} 0")) << Text();
  EXPECT_TRUE(Says("ringmaster_gpus_requested{job_namespace=\"team-a\"} 32")) << Text();
  EXPECT_EQ(Text(false).find("ringmaster_jobs{"), std::string::npos);
  EXPECT_EQ(Text(false).find("ringmaster_gpus"), std::string::npos);
}

TEST_F(JobMetricsTest, EveryCounterIsThereBeforeItsFirstEvent) {
  for (const char* line :
       {"ringmaster_job_restarts_total{cause=\"OOMKilled\",role=\"worker\"} 0",
        "ringmaster_job_restarts_total{cause=\"LauncherLost\",role=\"launcher\"} 0",
        "ringmaster_job_recoveries_total{cause=\"AgentLost\"} 0",
        "ringmaster_job_steps_lost_total 0",
        "ringmaster_jobs_ended_total{reason=\"Completed\",result=\"Succeeded\"} 0",
        "ringmaster_jobs_ended_total{reason=\"UserError\",result=\"Failed\"} 0",
        "ringmaster_job_submit_to_running_seconds_count 0",
        "ringmaster_job_recovery_seconds_count 0", "ringmaster_job_drain_seconds_count 0",
        "ringmaster_job_phase_seconds_count{phase=\"Paused\"} 0"}) {
    EXPECT_TRUE(Says(line)) << line << "\n" << Text();
  }
}

TEST_F(JobMetricsTest, RecordsAChange) {
  metrics.OnChange(
      {.submit_to_running = seconds(12),
       .phase_left = PhaseLeft{.phase = "Starting", .lasted = seconds(5)},
       .restarts = {{"worker", "Evicted"}, {"worker", "Evicted"}},
       .recovery =
           api::Recovery{
               .cause = "Silence", .detected_millis = 2000, .resumed_millis = 400, .steps_lost = 1},
       .end = JobEnd{.succeeded = false, .reason = "RankFailed"}});
  metrics.OnChange({.recovery = api::Recovery{.cause = "a cause of a newer launcher"}});
  metrics.OnDrained(std::chrono::milliseconds(300));

  for (const char* line :
       {"ringmaster_job_submit_to_running_seconds_sum 12",
        "ringmaster_job_phase_seconds_sum{phase=\"Starting\"} 5",
        "ringmaster_job_restarts_total{cause=\"Evicted\",role=\"worker\"} 2",
        "ringmaster_job_recoveries_total{cause=\"Silence\"} 1",
        "ringmaster_job_recoveries_total{cause=\"Other\"} 1",
        "ringmaster_job_recovery_seconds_bucket{le=\"2.5\"} 2",
        "ringmaster_job_recovery_seconds_bucket{le=\"1\"} 1", "ringmaster_job_steps_lost_total 1",
        "ringmaster_job_drain_seconds_bucket{le=\"0.25\"} 0",
        "ringmaster_job_drain_seconds_bucket{le=\"0.5\"} 1",
        "ringmaster_jobs_ended_total{reason=\"RankFailed\",result=\"Failed\"} 1"}) {
    EXPECT_TRUE(Says(line)) << line << "\n" << Text();
  }
}

}  // namespace
}  // namespace ringmaster::job
