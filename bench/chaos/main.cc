// ringmaster-chaos: injects faults into a job of real processes, or resizes it. It is built with
// the tests, because it uses the tests' hosts and jobs (tests/runtime).

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>

#include "bench/chaos/runs.h"
#include "worker/bench/harness/command.h"

namespace ringmaster::chaos {
namespace {

constexpr int kSkipped = 77;  // exit code of a skipped test (ctest's SKIP_RETURN_CODE)

struct Options {
  std::string faults = AllFaults();
  int64_t lost_after = 2000;  // milliseconds
  std::string keep;
  StageOptions stage;
  ChaosOptions chaos;
  ScaleOptions scale;
};

void AddStage(CLI::App& app, Options& options) {
  app.add_option("--min-replicas", options.stage.min_replicas,
                 "number of workers with which training continues")
      ->check(CLI::Range(1, 64));
  app.add_option("--cpus", options.stage.cpus,
                 "CPU quota of each worker, so that survivors cannot use the CPU time of a worker "
                 "that was lost")
      ->check(CLI::Range(0.1, 64.0));
  app.add_option("--global-batch", options.stage.global_batch, "samples per step")
      ->check(CLI::Range(1, 65536));
  app.add_option("flags", options.stage.trainer_flags,
                 "additional flags of ringmaster-train, or of the script, after --");
  app.add_option("--script", options.stage.script,
                 "Python script that uses the package, instead of ringmaster-train");
  app.add_option_function<std::vector<std::string>>(
      "--env",
      [&options](const std::vector<std::string>& assignments) {
        for (const std::string& assignment : assignments) {
          const std::size_t name = assignment.find('=');
          if (name == std::string::npos) throw CLI::ValidationError("--env", assignment);
          options.stage.variables[assignment.substr(0, name)] = assignment.substr(name + 1);
        }
      },
      "environment variable of every worker, NAME=VALUE");
  app.add_option("--lost-after", options.lost_after,
                 "milliseconds of silence after which a worker is lost")
      ->check(CLI::Range(100, 60000));
  app.add_option("--keep", options.keep, "folder for the audit logs; it is kept");
}

// Calls `run` with a folder for the ranks' logs. Keeps the folder with --keep or if `run` fails.
int InFolder(const Options& options, const std::function<int(const std::string& folder)>& run) {
  if (!runtime_test::Hosts::Possible()) {
    std::cout << "skipped: network namespaces require root" << std::endl;
    return kSkipped;
  }
  std::string folder = options.keep;
  std::array<char, 32> name{"/var/tmp/chaos-XXXXXX"};
  if (folder.empty()) folder = mkdtemp(name.data());
  std::filesystem::create_directories(folder);
  const int code = run(folder);
  std::error_code ignored;
  if (options.keep.empty() && code == 0) std::filesystem::remove_all(folder, ignored);
  if (code != 0) std::cerr << "the ranks' audit logs are in " << folder << std::endl;
  return code;
}

StageOptions StageOf(const Options& options) {
  StageOptions stage = options.stage;
  stage.lost_after = std::chrono::milliseconds(options.lost_after);
  return stage;
}

int RunFaults(Options options) {
  const auto kinds = ParseFaults(options.faults);
  if (!kinds.ok()) return bench::Refuse("--faults: " + kinds.error().message);
  options.chaos.kinds = *kinds;
  options.chaos.stage = StageOf(options);
  return InFolder(options, [&](const auto& folder) { return RunChaos(options.chaos, folder); });
}

int RunSizes(Options options) {
  options.scale.stage = StageOf(options);
  return InFolder(options, [&](const auto& folder) { return RunScale(options.scale, folder); });
}

bench::Command AddStrike(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& strike =
      *app.add_subcommand("strike", "run a schedule of faults against real processes");
  strike.add_option("--faults", options->faults, "kinds of faults to draw from");
  strike.add_option("--count", options->chaos.count, "how many")->check(CLI::Range(1, 100000));
  strike.add_option("--every", options->chaos.every, "seconds between faults")
      ->check(CLI::Range(0.0, 3600.0));
  strike.add_option("--seed", options->chaos.seed, "seed of the schedule");
  strike.add_option("--replicas", options->stage.workers, "workers")->check(CLI::Range(2, 64));
  AddStage(strike, *options);
  return {.app = &strike, .run = [options] { return RunFaults(*options); }};
}

bench::Command AddScale(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App& scale = *app.add_subcommand("scale", "scale a running job up and down");
  scale.add_option("--sizes", options->scale.sizes, "numbers of workers, in this order")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  AddStage(scale, *options);
  return {.app = &scale, .run = [options] { return RunSizes(*options); }};
}

}  // namespace
}  // namespace ringmaster::chaos

int main(int argc, char** argv) {
  using namespace ringmaster;
  return bench::RunProgram("Injects faults into, or resizes, a training job of real processes",
                           {chaos::AddStrike, chaos::AddScale}, argc, argv);
}
