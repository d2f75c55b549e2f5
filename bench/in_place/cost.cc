#include "bench/in_place/cost.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/runtime/job.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::in_place {
namespace {

constexpr runtime_test::Seconds kLimit{900};

control::LaunchSpec Script(const CostOptions& options, const std::string& result) {
  control::LaunchSpec spec;
  spec.command = {"python", options.folder + "/train.py", "--compare=" + result,
                  "--block=" + std::to_string(options.block),
                  "--steps=" + std::to_string((options.rounds + 1) * options.block)};
  spec.in_place = true;
  return spec;
}

void RunScript(const CostOptions& options, const std::string& result) {
  runtime_test::Job job(1 + options.workers, Script(options, result));
  job.worker_extra = {{"PATH", options.folder + "/bin:/usr/bin:/bin:/usr/sbin"},
                      {"PYTHONPATH", options.pythonpath},
                      {"PYTHONDONTWRITEBYTECODE", "1"},
                      {"PYTHONWARNINGS", "ignore"},
                      {"CUDA_VISIBLE_DEVICES", ""}};
  if (options.audit) {
    job.worker_extra["RINGMASTER_AUDIT_LOG"] = options.folder + "/audit-of-cost";
    std::filesystem::create_directories(job.worker_extra["RINGMASTER_AUDIT_LOG"]);
  }
  job.StartLauncher();
  std::vector<int> workers(static_cast<std::size_t>(options.workers));
  std::iota(workers.begin(), workers.end(), 0);
  for (const int worker : workers) job.StartAgent(worker);
  job.SendOrder(workers);
  const control::Verdict verdict = job.AwaitVerdict(kLimit);
  if (verdict.succeeded) return;
  std::cerr << job.Log();
  throw std::runtime_error("the job failed: " + verdict.message);
}

}  // namespace

void MeasureCost(const CostOptions& options) {
  const std::string result = options.folder + (options.audit ? "/cost-with-audit-log" : "/cost");
  std::filesystem::remove(result);
  RunScript(options, result);

  std::vector<double> percent;
  std::vector<double> cpu_percent;
  std::vector<double> plain_ms;
  std::ifstream lines(result);
  double through = 0, plain = 0, through_cpu = 0, plain_cpu = 0;
  while (lines >> through >> plain >> through_cpu >> plain_cpu) {
    percent.push_back(100 * (through / plain - 1));
    cpu_percent.push_back(100 * (through_cpu / plain_cpu - 1));
    plain_ms.push_back(1000 * plain / options.block);
  }
  if (percent.empty()) throw std::runtime_error("the script printed no comparison");
  const nlohmann::ordered_json line{{"percent", bench::Median(percent)},
                                    {"lower_quartile", bench::Percentile(percent, 0.25)},
                                    {"upper_quartile", bench::Percentile(percent, 0.75)},
                                    {"cpu_percent", bench::Median(cpu_percent)},
                                    {"plain_ms", bench::Median(plain_ms)},
                                    {"workers", options.workers},
                                    {"rounds", percent.size()},
                                    {"steps_per_block", options.block}};
  std::cout << line.dump() << std::endl;
}

}  // namespace ringmaster::in_place
