#include "worker/trainer/train/train_options.h"

#include <algorithm>
#include <array>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/command_line/parse_arguments.h"
#include "common/control/pod_contract.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/train/check_together.h"

namespace ringmaster::trainer {
namespace {

constexpr double kMaxRate = 1e6;
constexpr int64_t kMaxCount = int64_t{1} << 40;

std::chrono::milliseconds MillisOf(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

template <typename Values>
std::vector<std::string> Names(const Values& values) {
  std::vector<std::string> names;
  for (const auto each : values) names.emplace_back(NameOf(each));
  return names;
}

void AddTrainingFlags(CLI::App& app, TrainOptions& options) {
  app.add_option("--workload", options.workload, "what to train")
      ->check(CLI::IsMember({kMnistWorkload, kPartialFcWorkload}))
      ->capture_default_str();
  app.add_option(
         "--data", options.data,
         "a folder with the four MNIST files (IDX, plain or .gz), 'generated' digits, or "
         "'synthetic': identities for partial-fc, and else the first batch of the generated "
         "digits at every step, to see what data costs")
      ->envname(control::kEnvDataDir)
      ->capture_default_str();
  app.add_option("--generated-samples", options.generated_samples,
                 "training samples of --data=generated and --data=synthetic")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option(
         "--loader-threads", options.loader_threads,
         "threads that assemble the batches of the coming steps; 0: none; by default 1, and 4 "
         "where a GPU trains")
      ->check(CLI::Range(0, 256));
  app.add_option("--max-shift", options.max_shift,
                 "move training images by up to so many pixels each way, anew every step")
      ->check(CLI::Range(0, 27))
      ->capture_default_str();
  app.add_option("--global-batch", options.global_batch, "samples of one step, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--micro-batch", options.micro_batch,
                 "the most samples that a rank computes at once; of a larger share it adds up the "
                 "gradients "
                 "of several micro-batches (default: a rank's share while all workers are there)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
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
                 "of the learning rate over the run: constant, or cosine or polynomial (falling to "
                 "zero along half a cosine or a parabola)")
      ->check(CLI::IsMember({"constant", "cosine", "polynomial"}))
      ->capture_default_str();
  app.add_option("--warmup-steps", options.warmup_steps,
                 "steps in which the learning rate first rises")
      ->check(CLI::Range(int64_t{0}, kMaxCount))
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay,
                 "of the gradient descent (default 0.0005 with partial-fc, otherwise 0)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--momentum", options.momentum, "of the gradient descent, below 1")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of everything random")->capture_default_str();
}

void AddRunFlags(CLI::App& app, TrainOptions& options, double& timeout_seconds) {
  app.add_option(
         "--step-log", options.step_log,
         "where rank 0 writes steps, one JSON object a line: a file, '-' for standard output, or "
         "'none'")
      ->capture_default_str();
  app.add_option("--audit-log", options.audit_log,
                 "where every rank writes what ringmaster-audit checks: a folder, or a file "
                 "(*.jsonl); empty: nowhere")
      ->envname(kEnvAuditLog);
  app.add_option("--timeline", options.timeline,
                 "a folder for this rank's trace, written at its end: what it did when, for "
                 "chrome://tracing or Perfetto; worker/trainer/telemetry/merge_timelines.py joins "
                 "those of all ranks; empty: none");
  app.add_option_function<std::string>(
         "--not-finite",
         [&options](const std::string& choice) { options.skip_not_finite = choice == "skip"; },
         "what to do in a step whose loss or gradients are no finite numbers: stop, or skip its "
         "update")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->default_str("stop");
  app.add_option_function<std::string>(
         "--log-every",
         [&options](const std::string& text) {
           const Result<LogEvery> every = ParseLogEvery(text);
           if (!every.ok()) throw CLI::ValidationError("--log-every", every.error().message);
           options.log_every = *every;
         },
         "how often rank 0 writes a step: a number of steps (100) or a time (1s); the first of a "
         "world, the last, and a step without an update always")
      ->default_str("1s");
  app.add_option("--timeout", timeout_seconds,
                 "seconds until ranks that do not answer count as lost")
      ->envname(control::kEnvConnectTimeoutSeconds)
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "computing threads of this rank; 0: cores over ranks on this host")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--device", options.device,
                 "where to compute: auto is a GPU where the Pod was given any, else the CPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option_function<double>(
         "--gpu-release-limit",
         [&options](const double& seconds) { options.gpu_release_limit = MillisOf(seconds); },
         "seconds that the GPU has to let go of a world that is over, after its computing has "
         "ended; then this process ends itself, and its agent starts it again")
      ->check(CLI::Range(5.0, 300.0))
      ->default_str("15");
}

constexpr std::array kPrecisions{Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16};

void AddPrecisionFlag(CLI::App& app, TrainOptions& options) {
  const auto names = Names(kPrecisions);
  app.add_option_function<std::string>(
         "--precision",
         [&options, names](const std::string& name) {
           const auto found = std::ranges::find(names, name);
           options.precision = kPrecisions[static_cast<std::size_t>(found - names.begin())];
         },
         "in which numbers convolutions and linear layers are computed; the rest, parameters and "
         "gradients too, stays fp32. With fp16 the loss is scaled, and a step whose gradients "
         "overflow is left out")
      ->check(CLI::IsMember(names))
      ->default_str(NameOf(Precision::kFloat32));
}

constexpr std::array kCompressions{Compression::kNone, Compression::kFloat16,
                                   Compression::kBFloat16, Compression::kFloat8E4M3,
                                   Compression::kFloat8E5M2};

void AddCompressionFlag(CLI::App& app, std::string& compression) {
  app.add_option("--compression", compression,
                 "how gradients travel: as they are, or narrower, with error feedback")
      ->check(CLI::IsMember(Names(kCompressions)))
      ->capture_default_str();
}

void AddTransportFlag(CLI::App& app, TrainOptions& options) {
  app.add_option_function<std::string>(
         "--transport",
         [&options](const std::string& name) { options.transport = *HostTransportOf(name); },
         "what ranks on CPUs reduce over: Gloo's sockets, or memory that all ranks of a world "
         "share. auto: memory where all are in one Pod, or on one machine")
      ->check(CLI::IsMember(Names(kHostTransports)))
      ->default_str(NameOf(HostTransport::kAuto));
}

void AddBucketFlag(CLI::App& app, TrainOptions& options) {
  app.add_option("--bucket-mib", options.bucket_mib,
                 "MiB of gradients, of whole parameters, that are reduced at once while backward "
                 "goes on; the first bucket is smaller")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str();
}

void AddStateFlags(CLI::App& app, TrainOptions& options) {
  app.add_option(
         "--checkpoint-dir", options.checkpoint_dir,
         "a folder that all ranks share, for checkpoints; empty: none. A TrainingJob's are in "
         "NAMESPACE/NAME/UID below it, and only that job goes on from them; outside of one "
         "they are in the folder itself, and whoever trains there goes on from them")
      ->envname(control::kEnvCheckpointDir);
  auto* job = app.add_option("--restore-job", options.restore_job,
                             "begin with the newest checkpoint of another TrainingJob of this name "
                             "and namespace, while there is none of this one")
                  ->envname(control::kEnvRestoreJob);
  app.add_option("--restore-path", options.restore_path,
                 "begin with this checkpoint, or the newest one in this folder, below "
                 "--checkpoint-dir, while there is none of this run")
      ->envname(control::kEnvRestorePath)
      ->excludes(job);
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

void AddPartialFcFlags(CLI::App& app, PartialFcFlags& flags) {
  constexpr char kGroup[] = "The workload partial-fc";
  app.add_option("--classes", flags.classes,
                 "how many there are; each rank holds a share of their centres (default: the "
                 "data's; needed with --data=synthetic)")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 31))
      ->group(kGroup);
  app.add_option("--embedding", flags.embedding, "numbers in an embedding, and in a centre")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--sample-rate", flags.sample_rate,
                 "part of the classes that takes part in a step, above 0 and up to 1; those of its "
                 "samples always do. Below 1, centres that a step leaves out stay as they are (no "
                 "momentum, no weight decay) without --dense-update")
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--dense-update", flags.dense_update,
               "momentum and weight decay move every centre in every step, as in arcface_torch, "
               "whatever the sample rate; each step then passes over all of a rank's centres")
      ->group(kGroup);
  app.add_option(
         "--margin", flags.margin,
         "arcface, cosface, or combined(m1,m2,m3): cos(m1 θ + m2) - m3, with its true slope "
         "and falling beyond a half turn, unlike arcface_torch")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale", flags.scale, "of the cosines, before the softmax")
      ->check(CLI::Range(1.0, 256.0))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--backbone", flags.backbone, "the network from images to embeddings")
      ->check(CLI::IsMember({"small", "r18", "r34", "r50", "r100"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--image-side", flags.image_side, "pixels of --data=synthetic, each way")
      ->check(CLI::Range(int64_t{16}, int64_t{1024}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option(
         "--replica-every", flags.replica_every,
         "steps in which a rank sends its centres once to its replica peer, on another Pod; a "
         "lost rank's are brought up from there")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str()
      ->group(kGroup);
}

// What is not kept as it was given.
struct Given {
  double timeout_seconds = 30;
  bool check_build = false;
  bool dry_run = false;
  std::string compression = NameOf(Compression::kNone);
};

void AddFlags(CLI::App& app, TrainOptions& options, Given& given) {
  // So that a command can be repeated with changes.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", std::string("ringmaster-train ") + RINGMASTER_VERSION);
  auto* check =
      app.add_flag("--check-build", given.check_build, "list what this build can do, and exit");
  app.add_flag("--dry-run", given.dry_run,
               "load data and model, say what training with these flags would be, and exit")
      ->excludes(check);
  AddTrainingFlags(app, options);
  AddRunFlags(app, options, given.timeout_seconds);
  AddCompressionFlag(app, given.compression);
  AddPrecisionFlag(app, options);
  AddTransportFlag(app, options);
  AddBucketFlag(app, options);
  AddStateFlags(app, options);
  AddPartialFcFlags(app, options.partial_fc);
  AddWorldFlags(app, options);
}

}  // namespace

std::vector<std::string> FlagNames() {
  TrainOptions options;
  Given given;
  CLI::App app;
  AddFlags(app, options, given);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Result<ParsedCommandLine> ParseCommandLine(int argc, const char* const* argv) {
  ParsedCommandLine parsed;
  Given given;
  CLI::App app("Trains a model together with the other ranks of its world.", "ringmaster-train");
  AddFlags(app, parsed.options, given);
  try {
    ParseArguments(app, argc, argv);
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
  parsed.options.compression = *CompressionNamed(given.compression);  // one of the names above
  if (given.check_build) parsed.command = TrainCommand::kCheckBuild;
  if (given.dry_run) parsed.command = TrainCommand::kDryRun;
  parsed.options.timeout = MillisOf(given.timeout_seconds);
  if (Result<void> checked = CheckTogether(parsed.options); !checked.ok()) return checked.error();
  return parsed;
}

}  // namespace ringmaster::trainer
