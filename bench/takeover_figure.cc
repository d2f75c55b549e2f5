// Figure B4: the leader changes while jobs are running. There are two operators, 50 jobs of 4
// workers, and one more job, which is scaled at the moment when the leader is killed or stopped.
// Measures the time until the scaled job's new Pod exists, and whether any of the 50 jobs was
// disturbed. Uses its own etcd and API server; the kubelet and the launchers are simulated.

#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

#include "bench/creation.h"
#include "bench/played_jobs.h"
#include "tests/integration/harness/fake_kubelet.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

using nlohmann::json;

constexpr char kNamespace[] = "jobs";

enum class Way { kStays, kStops, kKilled };

class Takeovers {
 public:
  explicit Takeovers(std::string program) : program_(std::move(program)) {}

  Result<void> Start(int jobs, int workers) {
    auto plane = StartControlPlane();
    if (!plane.ok()) return plane.error();
    plane_ = std::move(*plane);
    if (auto made = plane_->MakeNamespace(kNamespace); !made.ok()) return made;
    admin_ = std::make_unique<testing::ApiClient>(plane_->AdminEndpoint());
    kubelet_ = std::make_unique<testing::FakeKubelet>(*admin_, kNamespace);
    if (auto started = Add(leader_); !started.ok()) return started;
    if (!leader_->WaitLeading()) return Error{ErrorKind::kTimeout, "no operator became the leader"};
    if (auto started = Add(standby_); !started.ok()) return started;
    // The last job is scaled; the other jobs must not be disturbed.
    if (auto ran = RunJobs(*admin_, kNamespace, jobs + 1, workers); !ran.ok()) return ran;
    scaled_ = "job-" + std::to_string(jobs);
    replicas_ = workers;
    return {};
  }

  // Returns the time from the leader's end to the creation of the scaled job's new Pod.
  Result<Seconds> Measure(Way way) {
    if (way == Way::kKilled) leader_->Kill();
    if (way == Way::kStops) leader_->process().Signal(SIGTERM);
    const auto begin = std::chrono::steady_clock::now();
    const testing::Response scaled =
        admin_->MergePatch(JobsPath(kNamespace) + "/" + scaled_,
                           {{"spec", {{"worker", {{"replicas", replicas_ + 1}}}}}});
    if (!scaled.ok()) return Error{ErrorKind::kInternal, scaled.Text()};
    const std::string pod = "/api/v1/namespaces/" + std::string(kNamespace) + "/pods/" + scaled_ +
                            "-worker-" + std::to_string(replicas_);
    if (!testing::WaitUntil([&] { return admin_->Get(pod).ok(); }))
      return Error{ErrorKind::kTimeout, "no Pod was created: " + standby_->Log()};
    ++replicas_;
    const Seconds took = std::chrono::steady_clock::now() - begin;
    if (way == Way::kStays) return took;
    leader_ = std::move(standby_);
    if (auto started = Add(standby_); !started.ok()) return started.error();
    return took;
  }

  // Returns for each job the values that change if it is disturbed: its Pods, term and world.
  std::map<std::string, std::string> State() const {
    std::map<std::string, std::string> state;
    for (const json& job : admin_->Get(JobsPath(kNamespace)).body.at("items")) {
      const json& status = job.at("status");
      state[job.at("metadata").at("name").get<std::string>()] =
          status.value("state", "") + " term " +
          status.value(json::json_pointer("/internal/launcherTerm"), json()).dump() + " epoch " +
          status.value("epoch", json()).dump();
    }
    const std::string pods = "/api/v1/namespaces/" + std::string(kNamespace) + "/pods";
    for (const json& pod : admin_->Get(pods).body.at("items")) {
      const json& meta = pod.at("metadata");
      state[meta.at("labels").at("ringmaster.dev/job-name").get<std::string>()] +=
          " " + meta.at("uid").dump();
    }
    state.erase(scaled_);
    return state;
  }

 private:
  Result<void> Add(std::unique_ptr<testing::OperatorProcess>& op) {
    auto started = StartOperator(*plane_, program_, "operator-" + std::to_string(++operators_));
    if (!started.ok()) return started.error();
    op = std::move(*started);
    return {};
  }

  const std::string program_;
  std::unique_ptr<testing::ControlPlane> plane_;
  std::unique_ptr<testing::ApiClient> admin_;
  std::unique_ptr<testing::FakeKubelet> kubelet_;
  std::unique_ptr<testing::OperatorProcess> leader_;
  std::unique_ptr<testing::OperatorProcess> standby_;
  std::string scaled_;
  int replicas_ = 0;
  int operators_ = 0;
};

Result<void> Measure(const std::string& program, int jobs, int workers, int rounds) {
  Takeovers takeovers(program);
  if (auto started = takeovers.Start(jobs, workers); !started.ok()) return started;
  const auto before = takeovers.State();
  std::map<Way, std::vector<double>> took;
  for (int round = 0; round < rounds; ++round) {
    for (const Way way : {Way::kStays, Way::kStops, Way::kKilled}) {
      const auto seconds = takeovers.Measure(way);
      if (!seconds.ok()) return seconds.error();
      took[way].push_back(seconds->count());
    }
    std::cout << "a leader that stays: " << took[Way::kStays].back()
              << " s; that stops: " << took[Way::kStops].back()
              << " s; that is killed: " << took[Way::kKilled].back() << " s" << std::endl;
  }
  const auto after = takeovers.State();
  int disturbed = 0;
  for (const auto& [job, state] : before) {
    const auto now = after.find(job);
    if (now != after.end() && now->second == state) continue;
    ++disturbed;
    std::cout << job << " was disturbed: " << state << ", then "
              << (now == after.end() ? "gone" : now->second) << std::endl;
  }
  const double killed = *std::max_element(took[Way::kKilled].begin(), took[Way::kKilled].end());
  const double stopped = *std::max_element(took[Way::kStops].begin(), took[Way::kStops].end());
  PrintFigure({.name = "B4",
               .value = killed,
               .unit = "s from the leader's kill to the first Pod of a change, maximum",
               .reference = Median(took[Way::kStays]),
               .goal = "<= 5, <= 1 after an orderly stop, no job disturbed",
               .holds = killed <= 5 && stopped <= 1 && disturbed == 0},
              {{"killed_s", took[Way::kKilled]},
               {"stopped_s", took[Way::kStops]},
               {"stays_s", took[Way::kStays]},
               {"jobs", jobs},
               {"workers", workers},
               {"disturbed", disturbed}});
  return {};
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  CLI::App app("Figure B4: leader changes while jobs are running");
  std::string program;
  int jobs = 50;
  int workers = 4;
  int rounds = 5;
  app.add_option("--operator", program, "path of the operator binary")->required();
  app.add_option("--jobs", jobs, "number of jobs that must not be disturbed");
  app.add_option("--workers", workers, "number of workers per job");
  app.add_option("--rounds", rounds, "rounds for a leader that stays, stops or is killed");
  CLI11_PARSE(app, argc, argv);
  const auto measured = ringmaster::bench::Measure(program, jobs, workers, rounds);
  if (measured.ok()) return 0;
  std::cerr << measured.error().message << std::endl;
  return 1;
}
