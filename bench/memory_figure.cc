// Figure B3: the operator's resident memory when idle, with 10,000 each of other owners' Secrets,
// ConfigMaps and Pods, and with 100 jobs of 64 running workers. Uses its own etcd and API server;
// the kubelet and the launchers are simulated.

#include <algorithm>
#include <atomic>
#include <iostream>
#include <thread>

#include <CLI/CLI.hpp>

#include "bench/creation.h"
#include "bench/played_jobs.h"
#include "tests/integration/harness/fake_kubelet.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

using nlohmann::json;

double StatusMiB(int pid, const std::string& field) {
  return static_cast<double>(testing::StatusField(pid, field)) / 1024;
}

// Waits two seconds, then returns the median of the memory sizes read in the next second.
double Resident(int pid) {
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::vector<double> readings;
  for (int i = 0; i < 10; ++i) {
    readings.push_back(StatusMiB(pid, "VmRSS"));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return Median(readings);
}

Result<void> MakeForeignObjects(testing::ApiClient& admin, const std::string& ns, int count) {
  const std::string core = "/api/v1/namespaces/" + ns + "/";
  const std::string kilobyte(1024, 'x');
  const json container = {{"name", "main"}, {"image", "example.com/other"}};
  std::atomic<int> refused{0};
  InParallel(16, count, [&](int i) {
    const json metadata = {{"name", "foreign-" + std::to_string(i)}};
    if (!admin
             .Post(core + "secrets", {{"metadata", metadata}, {"stringData", {{"text", kilobyte}}}})
             .ok())
      ++refused;
    if (!admin.Post(core + "configmaps", {{"metadata", metadata}, {"data", {{"text", kilobyte}}}})
             .ok())
      ++refused;
    if (!admin
             .Post(core + "pods",
                   {{"metadata", metadata}, {"spec", {{"containers", json::array({container})}}}})
             .ok())
      ++refused;
  });
  if (refused > 0)
    return Error{ErrorKind::kInternal,
                 std::to_string(refused) + " unrelated objects were rejected"};
  return {};
}

Result<void> Measure(const std::string& program, int foreign, int jobs, int workers) {
  auto plane = StartControlPlane();
  if (!plane.ok()) return plane.error();
  for (const char* ns : {"foreign", "jobs"}) {
    if (auto made = (*plane)->MakeNamespace(ns); !made.ok()) return made;
  }
  auto op = StartOperator(**plane, program, "operator");
  if (!op.ok()) return op.error();
  const int pid = (*op)->process().pid();
  testing::ApiClient admin((*plane)->AdminEndpoint());
  const double idle = Resident(pid);
  std::cout << "idle: " << idle << " MiB" << std::endl;
  if (auto made = MakeForeignObjects(admin, "foreign", foreign); !made.ok()) return made;
  const double beside = Resident(pid);
  if (beside < 0) return Error{ErrorKind::kUnavailable, "the operator exited: " + (*op)->Log()};
  std::cout << "with " << foreign << " foreign Secrets, ConfigMaps and Pods each: " << beside
            << " MiB" << std::endl;
  const testing::FakeKubelet kubelet(admin, "jobs");
  if (auto ran = RunJobs(admin, "jobs", jobs, workers); !ran.ok()) return ran;
  const double busy = Resident(pid);
  if (busy < 0) return Error{ErrorKind::kUnavailable, "the operator exited: " + (*op)->Log()};
  std::cout << "with " << jobs << " jobs of " << workers << " workers: " << busy << " MiB, peak "
            << StatusMiB(pid, "VmHWM") << " MiB" << std::endl;
  PrintFigure({.name = "B3",
               .value = busy,
               .unit = "MiB resident with all jobs running",
               .reference = idle,
               .goal = "idle <= 20, the same with foreign objects, <= 100 with the jobs",
               .holds = idle <= 20 && beside <= std::max(20.0, idle * 1.05) && busy <= 100},
              {{"idle_mib", idle},
               {"foreign_mib", beside},
               {"jobs_mib", busy},
               {"peak_mib", StatusMiB(pid, "VmHWM")},
               {"jobs", jobs},
               {"workers", workers},
               {"foreign", foreign}});
  return {};
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  CLI::App app("Figure B3: memory use of the operator");
  std::string program;
  int foreign = 10000;
  int jobs = 100;
  int workers = 64;
  app.add_option("--operator", program, "path of the operator binary")->required();
  app.add_option("--foreign", foreign, "number of unrelated objects of each kind");
  app.add_option("--jobs", jobs, "jobs");
  app.add_option("--workers", workers, "number of workers per job");
  CLI11_PARSE(app, argc, argv);
  const auto measured = ringmaster::bench::Measure(program, foreign, jobs, workers);
  if (measured.ok()) return 0;
  std::cerr << measured.error().message << std::endl;
  return 1;
}
