#include "worker/trainer/train/train_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
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
constexpr int64_t kMaxEpochs = int64_t{1} << 30;  // times 2^32 samples fits into 64 bits

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
  app.add_option("--workload", options.workload, "workload to train")
      ->check(CLI::IsMember({kMnistWorkload, kPartialFcWorkload}))
      ->capture_default_str();
  app.add_option("--data", options.data,
                 "folder with the four MNIST files (IDX, plain or .gz), 'generated' for generated "
                 "digits, or 'synthetic': identities for partial-fc, otherwise the first batch of "
                 "generated digits at every step, to measure the cost of data loading")
      ->envname(control::kEnvDataDir)
      ->capture_default_str();
  app.add_option("--generated-samples", options.generated_samples,
                 "number of training samples of --data=generated and --data=synthetic")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--loader-threads", options.loader_threads,
                 "threads that prefetch batches; 0: none; default: 1, or 4 with a GPU")
      ->check(CLI::Range(0, 256));
  app.add_option("--max-shift", options.max_shift,
                 "shift training images randomly by up to this many pixels in each direction")
      ->check(CLI::Range(0, 27))
      ->capture_default_str();
  app.add_option("--global-batch", options.global_batch, "samples per step, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--micro-batch", options.micro_batch,
                 "maximum number of samples that a rank computes at once; for a larger share, it "
                 "sums the gradients of several micro-batches (default: a rank's share when all "
                 "workers are present)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  auto* epochs = app.add_option("--epochs", options.epochs, "passes over the training samples")
                     ->check(CLI::Range(int64_t{1}, kMaxEpochs))
                     ->capture_default_str();
  app.add_option("--steps", options.steps, "number of steps, instead of --epochs")
      ->check(CLI::Range(int64_t{1}, kMaxCount))
      ->excludes(epochs);
  app.add_option("--learning-rate", options.learning_rate, "learning rate of the gradient descent")
      ->check(CLI::Range(0.0, kMaxRate))
      ->capture_default_str();
  app.add_option("--schedule", options.schedule,
                 "learning rate schedule: constant, or decay to zero with cosine or polynomial (a "
                 "parabola)")
      ->check(CLI::IsMember({"constant", "cosine", "polynomial"}))
      ->capture_default_str();
  app.add_option("--warmup-steps", options.warmup_steps,
                 "steps of the linear learning rate warm-up")
      ->check(CLI::Range(int64_t{0}, kMaxCount))
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay,
                 "weight decay (default 0.0005 with partial-fc, otherwise 0)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--momentum", options.momentum, "momentum, below 1")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of all random numbers")->capture_default_str();
}

void AddRunFlags(CLI::App& app, TrainOptions& options, double& timeout_seconds) {
  app.add_option("--step-log", options.step_log,
                 "output of rank 0's step log, one JSON object per line: a file, '-' for standard "
                 "output, or 'none'")
      ->capture_default_str();
  app.add_option("--audit-log", options.audit_log,
                 "output of each rank's audit log for ringmaster-audit: a folder, or a file "
                 "(*.jsonl); default: no audit log")
      ->envname(kEnvAuditLog);
  app.add_option("--timeline", options.timeline,
                 "folder for this rank's trace, written when it exits, for chrome://tracing or "
                 "Perfetto; worker/trainer/telemetry/merge_timelines.py merges the traces of all "
                 "ranks; default: no trace");
  app.add_option_function<std::string>(
         "--not-finite",
         [&options](const std::string& choice) { options.skip_not_finite = choice == "skip"; },
         "action if the loss or gradients of a step are NaN or infinite: stop, or skip its update")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->default_str("stop");
  app.add_option_function<std::string>(
         "--log-every",
         [&options](const std::string& text) {
           const Result<LogEvery> every = ParseLogEvery(text);
           if (!every.ok()) throw CLI::ValidationError("--log-every", every.error().message);
           options.log_every = *every;
         },
         "interval at which rank 0 writes a step: a number of steps (100) or a time (1s); the "
         "first step of a world, the last step and skipped steps are always written")
      ->default_str("1s");
  app.add_option("--timeout", timeout_seconds,
                 "seconds after which unresponsive ranks are considered lost")
      ->envname(control::kEnvConnectTimeoutSeconds)
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "compute threads of this rank; 0: number of cores divided by ranks on this host")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--device", options.device,
                 "device to compute on; auto: a GPU if the Pod has one, otherwise the CPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option_function<double>(
         "--gpu-release-limit",
         [&options](const double& seconds) { options.gpu_release_limit = MillisOf(seconds); },
         "seconds for the GPU to abort the operations of an ended world, after computation has "
         "finished; then this process exits and its agent restarts it")
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
         "precision of convolutions and linear layers; everything else, including parameters and "
         "gradients, stays fp32. With fp16 the loss is scaled, and steps whose gradients overflow "
         "are skipped")
      ->check(CLI::IsMember(names))
      ->default_str(NameOf(Precision::kFloat32));
}

constexpr std::array kCompressions{Compression::kNone, Compression::kFloat16,
                                   Compression::kBFloat16, Compression::kFloat8E4M3,
                                   Compression::kFloat8E5M2};

void AddCompressionFlag(CLI::App& app, std::string& compression) {
  app.add_option(
         "--compression", compression,
         "compression of gradients in transit: none, or a narrower format with error feedback")
      ->check(CLI::IsMember(Names(kCompressions)))
      ->capture_default_str();
}

void AddTransportFlag(CLI::App& app, TrainOptions& options) {
  app.add_option_function<std::string>(
         "--transport",
         [&options](const std::string& name) { options.transport = *HostTransportOf(name); },
         "transport of collectives on CPUs: Gloo over sockets, for at most 991 ranks, or memory "
         "that all ranks of a world "
         "share. auto: shared memory if all ranks are in one Pod or on one host")
      ->check(CLI::IsMember(Names(kHostTransports)))
      ->default_str(NameOf(HostTransport::kAuto));
}

void AddBucketFlag(CLI::App& app, TrainOptions& options) {
  app.add_option("--bucket-mib", options.bucket_mib,
                 "size of a gradient bucket in MiB; buckets hold whole parameters and are reduced "
                 "during the backward pass; the first bucket is smaller")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str();
}

void AddStateFlags(CLI::App& app, TrainOptions& options) {
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "folder for checkpoints, shared by all ranks; default: no checkpoints. "
                 "Checkpoints of a TrainingJob are in NAMESPACE/NAME/UID below it, and only that "
                 "job resumes from them; outside of a TrainingJob they are in the folder itself, "
                 "and any run with this folder resumes from them")
      ->envname(control::kEnvCheckpointDir);
  auto* job = app.add_option("--restore-job", options.restore_job,
                             "start from the latest checkpoint of another TrainingJob with this "
                             "name in the same namespace, if this job has no checkpoint")
                  ->envname(control::kEnvRestoreJob);
  app.add_option("--restore-path", options.restore_path,
                 "start from this checkpoint, or the latest one in this folder, below "
                 "--checkpoint-dir, if this run has no checkpoint")
      ->envname(control::kEnvRestorePath)
      ->excludes(job);
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps between checkpoints")
      ->envname(control::kEnvCheckpointEvery)
      ->check(CLI::Range(int64_t{1}, kMaxCount))
      ->capture_default_str();
  app.add_option("--checkpoint-keep", options.checkpoint_keep,
                 "number of complete checkpoints to keep")
      ->envname(control::kEnvCheckpointKeep)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option(
         "--snapshot-dir", options.snapshot_dir,
         "folder in shared memory for the latest snapshots of this host; default: no snapshots")
      ->envname(control::kEnvSnapshotDir);
}

void AddWorldFlags(CLI::App& app, TrainOptions& options) {
  constexpr char kGroup[] = "A manually configured world (in a job, the agent configures it)";
  app.add_option("--rank", options.rank, "rank of this process")
      ->check(CLI::Range(0, 1 << 20))
      ->group(kGroup);
  app.add_option("--world-size", options.world_size, "number of ranks")
      ->check(CLI::Range(1, 1 << 20))
      ->group(kGroup);
  app.add_option("--store", options.store,
                 "empty folder, shared by all ranks, in which they find each other")
      ->group(kGroup);
  app.add_option("--address", options.address,
                 "address on which this rank listens for its peers (default 127.0.0.1)")
      ->group(kGroup);
  app.add_option(
         "--membership-schedule", options.membership_schedule,
         "replay the worlds of a job from a file written by ringmaster-audit --schedule; --rank "
         "then selects the member that this process replays, in the order of their first steps")
      ->group(kGroup);
}

constexpr char kPartialFcGroup[] = "The workload partial-fc";

void AddPartialFcFlags(CLI::App& app, PartialFcFlags& flags) {
  constexpr const char* kGroup = kPartialFcGroup;
  app.add_option("--classes", flags.classes,
                 "number of classes; each rank holds a shard of their centres (default: the "
                 "classes of the data; required with --data=synthetic)")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 31))
      ->group(kGroup);
  app.add_option("--embedding", flags.embedding, "dimension of embeddings and centres")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--sample-rate", flags.sample_rate,
                 "fraction of the classes that are sampled in a step, above 0 and up to 1; classes "
                 "of the step's samples are always included. Below 1, centres that are not sampled "
                 "do not change (no momentum, no weight decay) unless --dense-update is set")
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag(
         "--dense-update", flags.dense_update,
         "apply momentum and weight decay to every centre in every step, as in arcface_torch, "
         "regardless of the sample rate; each step then processes all centres of a rank")
      ->group(kGroup);
  app.add_option("--margin", flags.margin,
                 "arcface, cosface, or combined(m1,m2,m3): cos(m1 θ + m2) - m3, with its exact "
                 "derivative and decreasing beyond π, unlike arcface_torch")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--scale", flags.scale, "scale of the cosines before the softmax")
      ->check(CLI::Range(1.0, 256.0))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--backbone", flags.backbone, "network that maps images to embeddings")
      ->check(CLI::IsMember({"small", "r18", "r34", "r50", "r100"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--image-side", flags.image_side,
                 "image width and height of --data=synthetic, in pixels")
      ->check(CLI::Range(int64_t{16}, int64_t{1024}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--replica-every", flags.replica_every,
                 "steps in which a rank sends all its centres once to its replica peer in another "
                 "Pod, from which the centres of a lost rank are restored")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str()
      ->group(kGroup);
}

// CLI::Range accepts NaN.
void RefuseNan(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_type_name().starts_with("FLOAT")) continue;
    option->check([](const std::string& text) {
      const bool nan = std::isnan(std::strtod(text.c_str(), nullptr));
      return nan ? text + " is not a number" : std::string();
    });
  }
}

// Refuses flags that the workload would ignore.
Result<void> CheckGroup(const CLI::App& app, const TrainOptions& options) {
  if (options.workload == kPartialFcWorkload) return {};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != kPartialFcGroup || option->count() == 0) continue;
    return Error{ErrorKind::kInvalid, option->get_name() +
                                          " has no effect with --workload=" + options.workload +
                                          "; remove it, or set --workload=partial-fc"};
  }
  return {};
}

// Values of flags that are converted before they are stored in TrainOptions.
struct FlagValues {
  double timeout_seconds = 30;
  bool check_build = false;
  bool dry_run = false;
  std::string compression = NameOf(Compression::kNone);
};

void AddFlags(CLI::App& app, TrainOptions& options, FlagValues& values) {
  // If a flag is repeated, the last one applies, so that a command can be extended.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", std::string("ringmaster-train ") + RINGMASTER_VERSION);
  auto* check =
      app.add_flag("--check-build", values.check_build, "list the features of this build and exit");
  app.add_flag("--dry-run", values.dry_run,
               "load data and model, print a summary of the training with these flags, and exit")
      ->excludes(check);
  AddTrainingFlags(app, options);
  AddRunFlags(app, options, values.timeout_seconds);
  AddCompressionFlag(app, values.compression);
  AddPrecisionFlag(app, options);
  AddTransportFlag(app, options);
  AddBucketFlag(app, options);
  AddStateFlags(app, options);
  AddPartialFcFlags(app, options.partial_fc);
  AddWorldFlags(app, options);
  RefuseNan(app);
}

}  // namespace

std::vector<std::string> FlagNames() {
  TrainOptions options;
  FlagValues values;
  CLI::App app;
  AddFlags(app, options, values);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Result<ParsedCommandLine> ParseCommandLine(int argc, const char* const* argv) {
  ParsedCommandLine parsed;
  FlagValues values;
  CLI::App app("Trains a model together with the other ranks of its world.", "ringmaster-train");
  AddFlags(app, parsed.options, values);
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
  parsed.options.compression =
      *CompressionNamed(values.compression);  // the parser checked the name
  if (values.check_build) parsed.command = TrainCommand::kCheckBuild;
  if (values.dry_run) parsed.command = TrainCommand::kDryRun;
  parsed.options.timeout = MillisOf(values.timeout_seconds);
  if (Result<void> checked = CheckGroup(app, parsed.options); !checked.ok()) return checked.error();
  if (Result<void> checked = CheckTogether(parsed.options); !checked.ok()) return checked.error();
  return parsed;
}

}  // namespace ringmaster::trainer
