#include "worker/trainer/train_options.h"

#include <limits>

#include <CLI/CLI.hpp>

#include "common/control/pod_contract.h"

namespace ringmaster::trainer {
namespace {

constexpr double kMaxRate = 1e6;
constexpr int64_t kMaxCount = int64_t{1} << 40;

void AddTrainingFlags(CLI::App& app, TrainOptions& options) {
  app.add_option("--workload", options.workload, "what to train")
      ->check(CLI::IsMember({"mnist"}))
      ->capture_default_str();
  app.add_option("--data", options.data,
                 "a folder with the four MNIST files (IDX, plain or .gz), or 'generated'")
      ->capture_default_str();
  app.add_option("--generated-samples", options.generated_samples,
                 "training samples of --data=generated")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--max-shift", options.max_shift,
                 "move training images by up to so many pixels each way, anew every step")
      ->check(CLI::Range(0, 27))
      ->capture_default_str();
  app.add_option("--global-batch", options.global_batch, "samples of one step, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  auto* epochs = app.add_option("--epochs", options.epochs, "passes over the training samples")
                     ->check(CLI::Range(int64_t{1}, kMaxCount))
                     ->capture_default_str();
  app.add_option("--steps", options.steps, "steps, instead of --epochs")
      ->check(CLI::Range(int64_t{1}, kMaxCount))
      ->excludes(epochs);
  app.add_option("--learning-rate", options.learning_rate, "of the gradient descent")
      ->check(CLI::Range(0.0, kMaxRate))
      ->capture_default_str();
  app.add_option("--schedule", options.schedule,
                 "of the learning rate over the run: constant, or cosine (falling to zero)")
      ->check(CLI::IsMember({"constant", "cosine"}))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "of the gradient descent, below 1")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of everything random")->capture_default_str();
}

void AddRunFlags(CLI::App& app, TrainOptions& options, double& timeout_seconds) {
  app.add_option(
         "--step-log", options.step_log,
         "where rank 0 writes one JSON line a step: a file, '-' for standard output, or 'none'")
      ->capture_default_str();
  app.add_option("--audit-log", options.audit_log,
                 "where every rank writes what ringmaster-audit checks: a folder, or a file "
                 "(*.jsonl); empty: nowhere")
      ->envname("RINGMASTER_AUDIT_LOG");
  app.add_option("--log-every", options.log_every, "write only every so many steps")
      ->check(CLI::Range(int64_t{1}, kMaxCount))
      ->capture_default_str();
  app.add_option("--timeout", timeout_seconds,
                 "seconds until ranks that do not answer count as lost")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "computing threads of this rank; 0: cores over ranks on this host")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--device", options.device, "where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
}

void AddStateFlags(CLI::App& app, TrainOptions& options) {
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "a folder that all ranks share, for checkpoints; empty: none")
      ->envname(control::kEnvCheckpointDir);
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps from one to the next")
      ->envname(control::kEnvCheckpointEvery)
      ->check(CLI::Range(int64_t{1}, kMaxCount))
      ->capture_default_str();
  app.add_option("--checkpoint-keep", options.checkpoint_keep, "how many complete ones to keep")
      ->envname(control::kEnvCheckpointKeep)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--snapshot-dir", options.snapshot_dir,
                 "a folder in shared memory, for this host's newest states; empty: none")
      ->envname(control::kEnvSnapshotDir);
}

void AddWorldFlags(CLI::App& app, TrainOptions& options) {
  constexpr char kGroup[] = "A world by hand (in a job, the agent gives it)";
  app.add_option("--rank", options.rank, "this process's rank")
      ->check(CLI::Range(0, 1 << 20))
      ->group(kGroup);
  app.add_option("--world-size", options.world_size, "how many ranks there are")
      ->check(CLI::Range(1, 1 << 20))
      ->group(kGroup);
  app.add_option("--store", options.store, "an empty folder that all ranks see, to find each other")
      ->group(kGroup);
  app.add_option("--address", options.address,
                 "where this rank listens for the others (default 127.0.0.1)")
      ->group(kGroup);
  app.add_option(
         "--membership-schedule", options.membership_schedule,
         "replay the worlds of a job, from what ringmaster-audit --schedule wrote: --rank is "
         "then which of its members this process is, in the order of their first steps")
      ->group(kGroup);
}

// What no single flag's check sees.
Result<void> CheckTogether(const TrainOptions& options) {
  const auto wrong = [](const char* text) { return Error{ErrorKind::kInvalid, text}; };
  if (!options.membership_schedule.empty()) {
    if (options.world_size != 0)
      return wrong("--membership-schedule says how many ranks there are: leave out --world-size");
    if (options.store.empty())
      return wrong(
          "--membership-schedule needs --store: a folder in which the ranks find each other");
    return {};
  }
  if (options.world_size == 0) {
    if (!options.store.empty() || options.rank != 0)
      return wrong("--rank and --store need --world-size, or --membership-schedule");
    return {};
  }
  if (options.rank >= options.world_size) {
    return wrong("--rank must be below --world-size: ranks count from 0");
  }
  if (options.world_size > 1 && options.store.empty()) {
    return wrong("--world-size above 1 needs --store: a folder in which the ranks find each other");
  }
  return {};
}

}  // namespace

Result<ParsedCommandLine> ParseCommandLine(int argc, const char* const* argv) {
  ParsedCommandLine parsed;
  double timeout_seconds = 30;
  bool check_build = false;
  CLI::App app("Trains a model together with the other ranks of its world.", "ringmaster-train");
  // So that a command can be repeated with changes.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", std::string("ringmaster-train ") + RINGMASTER_VERSION);
  app.add_flag("--check-build", check_build, "list what this build can do, and exit");
  AddTrainingFlags(app, parsed.options);
  AddRunFlags(app, parsed.options, timeout_seconds);
  AddStateFlags(app, parsed.options);
  AddWorldFlags(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.command = TrainCommand::kPrint;
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.command = TrainCommand::kPrint;
    parsed.text = std::string(version.what()) + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    return Error{ErrorKind::kInvalid,
                 std::string(error.what()) + "; ringmaster-train --help lists the flags"};
  }
  if (check_build) parsed.command = TrainCommand::kCheckBuild;
  parsed.options.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  if (Result<void> checked = CheckTogether(parsed.options); !checked.ok()) return checked.error();
  return parsed;
}

}  // namespace ringmaster::trainer
