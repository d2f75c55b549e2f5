// ringmaster-bench: attacks a training job of real processes (chaos), or resizes it (scale), and
// says what each event cost. The same seed strikes the same workers in the same order.

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "bench/chaos/runs.h"

namespace ringmaster::chaos {
namespace {

constexpr int kSkipped = 77;  // as ctest is told

struct Options {
  std::string faults = AllFaults();
  int64_t lost_after = 2000;  // milliseconds
  std::string keep;
  StageOptions stage;
  ChaosOptions chaos;
  ScaleOptions scale;
};

void AddStage(CLI::App& app, Options& options) {
  app.add_option("--min-replicas", options.stage.min_replicas, "with how many workers it goes on")
      ->check(CLI::Range(1, 64));
  app.add_option("--global-batch", options.stage.global_batch, "samples of a step")
      ->check(CLI::Range(1, 65536));
  app.add_option("--lost-after", options.lost_after, "milliseconds of silence that lose a worker")
      ->check(CLI::Range(100, 60000));
  app.add_option("--keep", options.keep, "a folder for the audit logs, kept");
}

int Main(int argc, char** argv) {
  CLI::App app("Measures and attacks Ringmaster's training", "ringmaster-bench");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  Options options;
  CLI::App& chaos = *app.add_subcommand("chaos", "a schedule of faults against real processes");
  chaos.add_option("--faults", options.faults, "kinds to draw from");
  chaos.add_option("--count", options.chaos.count, "how many")->check(CLI::Range(1, 100000));
  chaos.add_option("--every", options.chaos.every, "seconds from one to the next")
      ->check(CLI::Range(0.0, 3600.0));
  chaos.add_option("--seed", options.chaos.seed, "of the schedule");
  chaos.add_option("--replicas", options.stage.workers, "workers")->check(CLI::Range(2, 64));
  AddStage(chaos, options);
  CLI::App& scale = *app.add_subcommand("scale", "a running job gets more and fewer workers");
  scale.add_option("--sizes", options.scale.sizes, "one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  AddStage(scale, options);
  CLI11_PARSE(app, argc, argv);

  const auto kinds = ParseFaults(options.faults);
  if (!kinds.ok()) {
    std::cerr << "ringmaster-bench: --faults: " << kinds.error().message << std::endl;
    return 2;
  }
  if (!runtime_test::Hosts::Possible()) {
    std::cout << "skipped: making network namespaces needs root" << std::endl;
    return kSkipped;
  }
  options.stage.lost_after = std::chrono::milliseconds(options.lost_after);
  options.chaos.kinds = *kinds;
  options.chaos.stage = options.scale.stage = options.stage;
  std::string folder = options.keep;
  std::array<char, 32> name{"/var/tmp/chaos-XXXXXX"};
  if (folder.empty()) folder = mkdtemp(name.data());
  std::filesystem::create_directories(folder);
  const int code =
      chaos.parsed() ? RunChaos(options.chaos, folder) : RunScale(options.scale, folder);
  std::error_code ignored;
  if (options.keep.empty() && code == 0) std::filesystem::remove_all(folder, ignored);
  if (code != 0) std::cerr << "the ranks' audit logs are in " << folder << std::endl;
  return code;
}

}  // namespace
}  // namespace ringmaster::chaos

int main(int argc, char** argv) {
  try {
    return ringmaster::chaos::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "ringmaster-bench: " << error.what() << std::endl;
    return 1;
  }
}
