// Figure "backlog": 10,000 jobs of one worker exist when the operator starts; one more is created
// while the operator processes them. Measures whether the oldest jobs get their Pods first, the
// number of jobs per second, and the operator's memory. Uses its own etcd and API server; the
// Pods are not run.

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <thread>

#include <CLI/CLI.hpp>

#include "bench/creation.h"
#include "bench/played_jobs.h"
#include "operator/job/model/foreign_times.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr char kNamespace[] = "jobs";
constexpr char kPods[] = "/api/v1/namespaces/jobs/pods";

// Returns names whose order is not the order of creation.
std::string NameOf(int index) { return "job-" + std::to_string(1'000'000 - index); }

Result<void> PostBacklog(testing::ApiClient& admin, int jobs) {
  std::atomic<int> refused{0};
  InParallel(16, jobs, [&](int i) {
    if (!PostJob(admin, kNamespace, NameOf(i), 1).ok()) ++refused;
  });
  if (refused == 0) return {};
  return Error{ErrorKind::kInternal, std::to_string(refused) + " jobs were rejected"};
}

int PodCount(testing::ApiClient& admin) {
  const testing::Response page = admin.Get(std::string(kPods) + "?limit=1");
  if (!page.ok()) return 0;
  const auto items = static_cast<int>(page.body.at("items").size());
  return items + page.body.at("metadata").value("remainingItemCount", 0);
}

// Returns the creation time of each object, by name, in whole seconds since 1970.
Result<std::map<std::string, int64_t>> CreationTimes(testing::ApiClient& admin,
                                                     const std::string& path) {
  std::map<std::string, int64_t> times;
  std::string next;
  do {
    // After so many writes the API server's cache may lag, so a list may fail: retry.
    testing::Response page;
    testing::WaitUntil([&] {
      page = admin.Get(path + "?limit=500&continue=" + next);
      return page.ok();
    });
    if (!page.ok()) return Error{ErrorKind::kInternal, "listing " + path + ": " + page.Text()};
    for (const json& item : page.body.at("items")) {
      const json& meta = item.at("metadata");
      const auto time = job::ParseTime(meta.at("creationTimestamp").get<std::string>());
      times[meta.at("name").get<std::string>()] =
          time ? std::chrono::system_clock::to_time_t(*time) : 0;
    }
    next = page.body.at("metadata").value("continue", "");
  } while (!next.empty());
  return times;
}

// Returns the largest number of seconds by which a job's launcher preceded an older job's launcher.
int64_t WorstOvertaking(const std::map<std::string, int64_t>& jobs,
                        const std::map<std::string, int64_t>& pods) {
  std::map<int64_t, std::vector<int64_t>> launched_by_age;
  for (const auto& [name, created] : jobs) {
    const auto pod = pods.find(name + "-launcher-1");
    if (pod != pods.end()) launched_by_age[created].push_back(pod->second);
  }
  int64_t worst = 0;
  int64_t latest_of_older = 0;
  for (const auto& [created, launched] : launched_by_age) {
    const auto [first, last] = std::minmax_element(launched.begin(), launched.end());
    worst = std::max(worst, latest_of_older - *first);
    latest_of_older = std::max(latest_of_older, *last);
  }
  return worst;
}

Result<void> Measure(const std::string& program, int jobs) {
  auto plane = StartControlPlane();
  if (!plane.ok()) return plane.error();
  if (auto made = (*plane)->MakeNamespace(kNamespace); !made.ok()) return made;
  testing::ApiClient admin((*plane)->AdminEndpoint());
  if (auto posted = PostBacklog(admin, jobs); !posted.ok()) return posted;
  std::cout << jobs << " jobs wait" << std::endl;

  auto op = StartOperator(**plane, program, "operator",
                          {"--lease-duration=60s", "--renew-deadline=50s", "--retry-period=2s"});
  if (!op.ok()) return op.error();
  const int pid = (*op)->process().pid();
  const auto begin = steady_clock::now();
  const auto seconds = [&] { return Seconds(steady_clock::now() - begin).count(); };
  // Create one more job once the first jobs have Pods.
  if (!testing::WaitUntil([&] { return PodCount(admin) > 0; }))
    return Error{ErrorKind::kTimeout, "no Pod was created: " + (*op)->Log()};
  const double newcomer_posted = seconds();
  if (auto posted = PostJob(admin, kNamespace, "newcomer", 1); !posted.ok()) return posted;
  const int wanted = 2 * (jobs + 1);
  const bool done = testing::WaitUntil(
      [&] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        const int pods = PodCount(admin);
        if (static_cast<int>(seconds()) % 20 == 0) {
          std::cout << static_cast<int>(seconds()) << " s: " << pods << " of " << wanted << " Pods"
                    << std::endl;
        }
        return pods >= wanted;
      },
      std::chrono::minutes(30));
  const double took = seconds();
  if (!done) return Error{ErrorKind::kTimeout, "not all Pods were created: " + (*op)->Log()};
  const auto created = CreationTimes(admin, JobsPath(kNamespace));
  const auto pods = CreationTimes(admin, kPods);
  if (!created.ok()) return created.error();
  if (!pods.ok()) return pods.error();
  const auto second_terms = std::count_if(pods->begin(), pods->end(), [](const auto& pod) {
    return pod.first.find("-launcher-") != std::string::npos && !pod.first.ends_with("-launcher-1");
  });
  const int64_t overtaking = WorstOvertaking(*created, *pods);
  const double peak = static_cast<double>(testing::StatusField(pid, "VmHWM")) / 1024;
  const double per_job = peak * 1024 / (jobs + 1);
  const auto newcomer = pods->find("newcomer-worker-0");
  if (newcomer == pods->end())
    return Error{ErrorKind::kInternal, "the latest job has no worker: " + (*op)->Log()};
  const auto newcomer_waited = static_cast<double>(newcomer->second - created->at("newcomer"));
  PrintFigure({.name = "backlog",
               .value = static_cast<double>(overtaking),
               .unit = "s by which a younger job's launcher came before an older one's, maximum",
               .reference = took,
               .reference_is = "s until all had their Pods",
               .goal = "<= 2, <= 32 KiB of the operator's memory a job at its peak",
               .holds = overtaking <= 2 && per_job <= 32},
              {{"jobs", jobs},
               {"jobs_per_s", (jobs + 1) / took},
               {"peak_mib", peak},
               {"peak_kib_per_job", per_job},
               {"second_terms", second_terms},
               {"newcomer_came_after_s", newcomer_posted},
               {"newcomer_waited_s", newcomer_waited}});
  return {};
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  CLI::App app("Figure backlog: jobs that wait for an operator");
  std::string program;
  int jobs = 10'000;
  app.add_option("--operator", program, "the operator's binary")->required();
  app.add_option("--jobs", jobs, "jobs that wait");
  CLI11_PARSE(app, argc, argv);
  const auto measured = ringmaster::bench::Measure(program, jobs);
  if (measured.ok()) return 0;
  std::cerr << measured.error().message << std::endl;
  return 1;
}
