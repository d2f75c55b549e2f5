#include "bench/chaos/runs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/chaos/measures.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::chaos {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kSettles{2000};

std::string LogsIn(const std::string& folder) {
  const std::string logs = folder + "/audit";
  std::filesystem::create_directory(logs);
  return logs;
}

int Fail(const std::string& what, const Stage& stage, const std::string& message) {
  std::cerr << stage.Log() << "ringmaster-chaos: " << what << ": " << message << std::endl;
  return 1;
}

// Ends the run: audits its logs, prints the summary with the audit's result, and returns the exit
// code.
int Conclude(const std::string& what, Stage& stage, const std::string& folder,
             nlohmann::json summary) {
  if (auto ended = stage.End(); !ended.ok()) return Fail(what, stage, ended.error().message);
  const auto audit = runtime_test::RunCommand({runtime_test::AuditProgram(), folder + "/audit"});
  const bool clean = audit.exit_code == 0;
  summary["audit"] = clean ? "clean" : "not clean";
  std::cout << audit.output << summary.dump() << std::endl;
  return clean ? 0 : Fail(what, stage, "the audit failed");
}

}  // namespace

int RunChaos(const ChaosOptions& options, const std::string& folder) {
  const std::string seed = "seed " + std::to_string(options.seed);
  Stage stage(options.stage, LogsIn(folder));
  if (auto begun = stage.Begin(); !begun.ok()) return Fail(seed, stage, begun.error().message);

  // Measure the undisturbed rate before the first fault, for the duration of `pause`, and between
  // faults, once the world is complete and has settled. One window is not enough, because the
  // machine's speed varies. bench/peers/torchrun measures in the same way.
  const milliseconds pause(static_cast<int64_t>(options.every * 1000));
  const Time begin = steady_clock::now();
  std::this_thread::sleep_for(pause);
  const Time strikes_begin = steady_clock::now();
  std::vector<Window> calm{{begin, strikes_begin}};

  std::vector<double> first_steps;
  std::vector<double> wholes;
  std::vector<int> struck_workers;
  int silent = 0;
  for (const Fault& fault :
       MakeSchedule(options.kinds, options.stage.workers, options.count, options.seed)) {
    const Time struck = steady_clock::now();
    const Time next = struck + pause;
    const Result<Outcome> outcome = stage.Strike(fault);
    if (!outcome.ok()) return Fail(seed, stage, outcome.error().message);
    if (outcome->first_step >= 0) first_steps.push_back(outcome->first_step);
    struck_workers.push_back(fault.worker);
    silent += IsSilent(fault.kind) ? 1 : 0;
    std::printf(
        "%-10s worker %d: detected %6.0f ms, re-formed %6.0f ms, first step %6.0f ms, full size "
        "%6.0f ms, longest gap %6.0f ms, steps lost %d\n",
        ToString(fault.kind), fault.worker, outcome->detected, outcome->reformed,
        outcome->first_step, outcome->whole, outcome->longest_gap,
        static_cast<int>(outcome->steps_lost));
    std::fflush(stdout);
    wholes.push_back(outcome->whole);
    const Time settled = steady_clock::now() + kSettles;
    if (settled < next) calm.push_back({settled, next});
    std::this_thread::sleep_until(next);
  }
  const Time end = steady_clock::now();
  const auto steps = stage.trail().steps();
  const double kept = RateOf(steps, {{strikes_begin, end}});
  const double seconds = duration<double>(end - strikes_begin).count();
  return Conclude(
      seed, stage, folder,
      {{"seed", options.seed},
       {"faults", options.count},
       {"struck", struck_workers},
       {"steps", steps.back().step},
       {"seconds", seconds},
       {"median_step_ms", MedianStepMillis(steps)},
       {"undisturbed_steps_per_second", RateOf(steps, calm)},
       {"median_whole_ms", wholes.empty() ? -1 : bench::Median(wholes)},
       {"throughput_kept", kept / RateOf(steps, calm)},
       {"silent_cost", static_cast<double>(silent) *
                           static_cast<double>(options.stage.lost_after.count()) / 1000 / seconds},
       {"median_first_step_ms", first_steps.empty() ? -1 : bench::Median(first_steps)},
       {"worst_first_step_ms", first_steps.empty() ? -1 : bench::Percentile(first_steps, 1)}});
}

int RunScale(ScaleOptions options, const std::string& folder) {
  options.stage.at_first = options.sizes.front();
  options.stage.workers = *std::max_element(options.sizes.begin(), options.sizes.end());
  Stage stage(options.stage, LogsIn(folder));
  if (auto begun = stage.Begin(); !begun.ok()) return Fail("scale", stage, begun.error().message);
  const auto calm = [&] {
    const int64_t step = stage.trail().newest().step;
    return stage.trail().Await(options.stage.limit,
                               [&](const Applied& newest) { return newest.step >= step + 50; });
  };
  double longest = 0;
  for (std::size_t i = 1; i < options.sizes.size(); ++i) {
    if (!calm()) return Fail("scale", stage, "the job makes no progress");
    const Result<Outcome> outcome = stage.Scale(options.sizes[i]);
    if (!outcome.ok()) return Fail("scale", stage, outcome.error().message);
    std::printf("%d -> %d workers: full size after %.0f ms, longest gap %.0f ms\n",
                options.sizes[i - 1], options.sizes[i], outcome->whole, outcome->longest_gap);
    std::fflush(stdout);
    longest = std::max(longest, outcome->longest_gap);
  }
  if (!calm()) return Fail("scale", stage, "the job makes no progress");
  return Conclude(
      "scale", stage, folder,
      {{"longest_gap_ms", longest}, {"median_step_ms", MedianStepMillis(stage.trail().steps())}});
}

}  // namespace ringmaster::chaos
