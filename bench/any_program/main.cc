// Figure B21: injects a random schedule of faults into an unmodified torchrun job with checkpoints,
// under Ringmaster and under torchrun's own agents. It is built with the tests.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/any_program/faults.h"
#include "bench/any_program/site.h"
#include "bench/any_program/step_log.h"
#include "tests/paths.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::any_program {
namespace {

constexpr int kSkipped = 77;
constexpr double kNoticedGoal = 3;
constexpr double kAgainGoal = 30;

struct Options {
  std::string pytorch;
  std::string faults = AllFaults();
  std::string keep;
  int count = 100;
  int reference = 25;
  uint64_t seed = 1;
  int limit = 120;
  SiteOptions site;
};

struct Recovery {
  FaultKind kind = FaultKind::kKillRank;
  bool recovered = false;         // the job recovered within the limit and was not restarted
  double seconds = 0;             // time from the fault to the end of the first new step
  int64_t repeated = 0;           // number of repeated steps
  int starts = 0;                 // how often all ranks were started
  std::optional<double> noticed;  // seconds until a silent host was detected
};

// Returns the recovery from a fault that was injected when the log had `known` steps, if complete.
std::optional<Recovery> RecoveryIn(const std::vector<Step>& steps, std::size_t known, double struck,
                                   int ranks) {
  const double before = steps.at(known - 1).start;
  int64_t furthest = 0;
  for (std::size_t i = 0; i < known; ++i) furthest = std::max(furthest, steps[i].step);
  Recovery recovery;
  double newest = before;
  for (std::size_t i = known; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.start < newest) {
      throw std::runtime_error("ranks of two starts completed steps at the same time");
    }
    if (step.ranks != ranks) throw std::runtime_error("a start did not have all ranks");
    if (step.start > newest) {
      newest = step.start;
      ++recovery.starts;
      recovery.repeated = std::max(recovery.repeated, furthest - step.step + 1);
    }
    if (newest > before && step.step > furthest) {
      recovery.seconds = step.at - struck;
      return recovery;
    }
    furthest = std::max(furthest, step.step);
  }
  return std::nullopt;
}

// Runs the schedule on one site.
class Run {
 public:
  Run(const Options& options, std::unique_ptr<Site> site, const std::string& log)
      : options_(options), site_(std::move(site)), log_(log) {}

  // Returns a result per fault that the site supports. Restarts the job if it does not recover.
  std::vector<Recovery> Play(const std::vector<Fault>& schedule) {
    Start();
    std::vector<Recovery> all;
    for (const Fault& fault : schedule) {
      if (!site_->Knows(fault.kind)) continue;
      std::this_thread::sleep_for(fault.after);
      AwaitStep();
      const std::size_t known = log_.Read().size();
      const double struck = Now();
      const std::optional<double> noticed = site_->Strike(fault);
      std::optional<Recovery> seen;
      const std::string why = Await([&] {
        seen = RecoveryIn(log_.Read(), known, struck, Ranks());
        return seen.has_value();
      });
      Recovery recovery = seen.value_or(Recovery{});
      recovery.kind = fault.kind;
      recovery.recovered = seen.has_value();
      recovery.noticed = noticed;
      all.push_back(recovery);
      Print(all, fault, why);
      if (!site_->Heal())
        throw std::runtime_error("processes on the disconnected host are still running");
      if (!seen) Start();
    }
    return all;
  }

  std::string Log() const { return site_->Log(); }

 private:
  int Ranks() const { return options_.site.workers * options_.site.ranks; }

  void Start() {
    site_->Start();
    AwaitStep();
  }

  // Waits until the job has logged another step.
  void AwaitStep() {
    const std::size_t made = log_.Read().size();
    const std::string why = Await([&] { return log_.Read().size() > made; });
    if (!why.empty()) throw std::runtime_error("the job does not train: " + why);
  }

  // Waits until the condition is true. Returns an empty text, or why it did not become true.
  template <typename Condition>
  std::string Await(const Condition& condition) {
    std::string over;
    const bool happened = runtime_test::WaitUntil(std::chrono::seconds(options_.limit), [&] {
      over = site_->Tend();
      return !over.empty() || condition();
    });
    if (!over.empty()) return over;
    return happened ? "" : "no new step in " + std::to_string(options_.limit) + " s";
  }

  static void Print(const std::vector<Recovery>& all, const Fault& fault, const std::string& why) {
    const Recovery& recovery = all.back();
    std::printf("%3zu %-13s worker %d: ", all.size(), ToString(fault.kind), fault.worker);
    if (recovery.recovered) {
      std::printf("first new step after %5.1f s, %2d repeated", recovery.seconds,
                  static_cast<int>(recovery.repeated));
      if (recovery.starts != 1) std::printf(", after %d starts", recovery.starts);
    } else {
      std::printf("not recovered: %s", why.c_str());
    }
    if (recovery.noticed) std::printf(", reported after %.2f s", *recovery.noticed);
    std::printf("\n");
    std::fflush(stdout);
  }

  const Options options_;
  const std::unique_ptr<Site> site_;
  StepLog log_;
};

double Worst(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Returns the recovery times, in seconds, of the faults from which the job recovered.
std::vector<double> SecondsOf(const std::vector<Recovery>& all) {
  std::vector<double> seconds;
  for (const Recovery& one : all) {
    if (one.recovered) seconds.push_back(one.seconds);
  }
  return seconds;
}

double PercentRecovered(const std::vector<Recovery>& all) {
  if (all.empty()) return 0;
  return 100 * static_cast<double>(SecondsOf(all).size()) / static_cast<double>(all.size());
}

nlohmann::ordered_json Summary(const std::vector<Recovery>& all) {
  std::vector<double> repeated;
  for (const Recovery& one : all) {
    if (one.recovered) repeated.push_back(static_cast<double>(one.repeated));
  }
  return {{"faults", all.size()},
          {"recovered", SecondsOf(all).size()},
          {"median_s", bench::Median(SecondsOf(all))},
          {"worst_s", Worst(SecondsOf(all))},
          {"median_steps_repeated", bench::Median(repeated)},
          {"worst_steps_repeated", Worst(repeated)}};
}

int Report(const Options& options, const std::vector<Recovery>& ours,
           const std::vector<Recovery>& theirs) {
  double noticed = 0;
  bool all_noticed = true;
  std::map<std::string, std::vector<double>> kinds;
  for (const Recovery& one : ours) {
    if (one.recovered) kinds[ToString(one.kind)].push_back(one.seconds);
    if (!one.noticed) continue;
    noticed = std::max(noticed, *one.noticed);
    all_noticed = all_noticed && *one.noticed >= 0;
  }
  nlohmann::ordered_json more = Summary(ours);
  more["silence_noticed_worst_s"] = noticed;
  for (const auto& [kind, seconds] : kinds) more["median_s_of"][kind] = bench::Median(seconds);
  more["workers"] = options.site.workers;
  more["ranks"] = options.site.workers * options.site.ranks;
  if (!theirs.empty()) more["torchrun"] = Summary(theirs);
  const bool holds = static_cast<int>(SecondsOf(ours).size()) == options.count && all_noticed &&
                     noticed <= kNoticedGoal && Worst(SecondsOf(ours)) <= kAgainGoal;
  bench::FigureLine figure{
      .name = "B21",
      .value = PercentRecovered(ours),
      .unit = "% of the faults after which a torchrun job resumed training by itself",
      .goal = "100; a silent host reported <= 3 s, a new step <= 30 s",
      .holds = holds};
  if (!theirs.empty()) {
    figure.reference = PercentRecovered(theirs);
    figure.reference_is =
        "torchrun's own agents, with the faults of the same schedule that it can detect";
  }
  bench::PrintFigure(figure, more);
  return EXIT_SUCCESS;
}

// Copies the script to `folder`, which all hosts must share, because each has its own /tmp.
SiteOptions Prepare(const Options& options, const std::string& folder) {
  const std::string bin = folder + "/bin";
  std::filesystem::create_directories(bin);
  std::filesystem::create_symlink("/usr/bin/python3", bin + "/python");
  std::filesystem::copy_file(FromBuild(RINGMASTER_SCRIPT), folder + "/train.py");
  SiteOptions site = options.site;
  site.folder = folder;
  site.variables = {{"PATH", bin}, {"PYTHONPATH", options.pytorch}, {"CUDA_VISIBLE_DEVICES", ""}};
  return site;
}

SiteOptions WithLogs(SiteOptions site, const std::string& name) {
  site.script = {site.folder + "/train.py", "--checkpoint=" + site.folder + "/" + name + ".pt",
                 "--steps=" + site.folder + "/" + name + ".steps"};
  return site;
}

std::vector<Recovery> PlayOn(const Options& options, const SiteOptions& site_options,
                             std::unique_ptr<Site> site, const std::vector<Fault>& schedule) {
  const std::string log = site_options.script.back();
  Run run(options, std::move(site), log.substr(log.find('=') + 1));
  try {
    return run.Play(schedule);
  } catch (const std::exception&) {
    std::cerr << run.Log();
    throw;
  }
}

int Measure(const Options& options, const std::vector<FaultKind>& kinds) {
  std::array<char, 32> name{"/var/tmp/b21-XXXXXX"};
  const std::string folder = options.keep.empty() ? mkdtemp(name.data()) : options.keep;
  const SiteOptions site = Prepare(options, folder);
  std::vector<Fault> schedule =
      MakeSchedule(kinds, options.site.workers, options.site.ranks, options.count, options.seed);
  const SiteOptions ours = WithLogs(site, "ringmaster");
  const auto our_recoveries = PlayOn(options, ours, UnderRingmaster(ours), schedule);
  std::vector<Recovery> their_recoveries;
  if (options.reference > 0) {
    std::cout << "torchrun's own agents:" << std::endl;
    const SiteOptions theirs = WithLogs(site, "torchrun");
    schedule.resize(std::min(schedule.size(), static_cast<std::size_t>(options.reference)));
    their_recoveries = PlayOn(options, theirs, UnderTorchrun(theirs), schedule);
  }
  if (options.keep.empty()) std::filesystem::remove_all(folder);
  return Report(options, our_recoveries, their_recoveries);
}

}  // namespace
}  // namespace ringmaster::any_program

int main(int argc, char** argv) {
  using namespace ringmaster::any_program;
  Options options;
  CLI::App app("Figure B21: recovery of a torchrun job from faults");
  app.add_option("--pytorch", options.pytorch, "PyTorch folder from deploy/local/pytorch.sh")
      ->required();
  app.add_option("--count", options.count, "faults")->check(CLI::Range(1, 100000));
  app.add_option("--reference", options.reference,
                 "number of faults under torchrun's own agents; 0: none")
      ->check(CLI::Range(0, 100000));
  app.add_option("--faults", options.faults, "kinds of faults to draw from");
  app.add_option("--seed", options.seed, "seed of the schedule");
  app.add_option("--workers", options.site.workers, "workers")->check(CLI::Range(2, 16));
  app.add_option("--ranks", options.site.ranks, "of each worker")->check(CLI::Range(1, 16));
  app.add_option("--limit", options.limit, "maximum seconds for a recovery")
      ->check(CLI::Range(1, 3600));
  app.add_option("--keep", options.keep, "new folder for logs and checkpoints; it is kept");
  CLI11_PARSE(app, argc, argv);
  const auto kinds = ParseFaults(options.faults);
  if (!kinds.ok()) {
    std::cerr << "--faults: " << kinds.error().message << std::endl;
    return 2;
  }
  if (!ringmaster::runtime_test::Hosts::Possible()) {
    std::cout << "skipped: network namespaces require root" << std::endl;
    return kSkipped;
  }
  try {
    return Measure(options, *kinds);
  } catch (const std::exception& error) {
    std::cerr << "figure-b21: " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
