#pragma once

// The flags of ringmaster-train, which are validated before training starts.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/trainer/comm/host/host_transport.h"
#include "worker/trainer/comm/nccl/abort_limit.h"
#include "worker/trainer/compression/codec.h"
#include "worker/trainer/numeric/precision.h"
#include "worker/trainer/telemetry/step_log.h"

namespace ringmaster::trainer {

inline constexpr char kMnistWorkload[] = "mnist";
inline constexpr char kPartialFcWorkload[] = "partial-fc";
// Values of --data that are not folders.
inline constexpr char kGeneratedData[] = "generated";
inline constexpr char kSyntheticData[] = "synthetic";

// Flags of the workload partial-fc only.
struct PartialFcFlags {
  int64_t classes = 0;  // 0: the number of classes in the data
  int64_t embedding = 512;
  double sample_rate = 0.1;
  bool dense_update = false;
  std::string margin = "arcface";
  double scale = 64;
  std::string backbone = "r50";
  int64_t image_side = 112;  // only for --data=synthetic
  int replica_every = 100;
};

struct TrainOptions {
  std::string workload = kMnistWorkload;
  std::string data = kGeneratedData;    // kGeneratedData, kSyntheticData or a folder of IDX files
  std::optional<int> loader_threads{};  // unset: the device's default
  int64_t generated_samples = 8192;
  int max_shift = 0;
  int64_t global_batch = 64;
  int64_t micro_batch = 0;  // 0: the share of a rank in a world of full size
  int64_t epochs = 5;
  int64_t steps = 0;  // 0: determined by the epochs
  double learning_rate = 0.01;
  std::string schedule = "cosine";
  double momentum = 0.9;
  int64_t warmup_steps = 0;
  std::optional<double> weight_decay{};  // unset: the workload's default
  uint64_t seed = 1;
  std::string step_log = "-";
  std::string audit_log;       // empty: none
  std::string checkpoint_dir;  // empty: no checkpoints
  std::string restore_job;     // start from this job's state; not set together with restore_path
  std::string restore_path;
  int64_t checkpoint_every = 500;
  int checkpoint_keep = 3;
  std::string snapshot_dir;  // empty: no snapshots
  LogEvery log_every{.steps = 0, .time = std::chrono::seconds(1)};
  std::string timeline;  // empty: none
  bool skip_not_finite = false;
  std::chrono::milliseconds timeout{30'000};
  int threads = 1;  // 0: the number of cores divided by the ranks on this host
  std::string device = "auto";
  std::chrono::milliseconds gpu_release_limit = kAbortLimit;
  Compression compression = Compression::kNone;
  Precision precision = Precision::kFloat32;
  double bucket_mib = 16;

  PartialFcFlags partial_fc;

  // The world, if flags define it. Else the agent defines it; without an agent, it has one rank.
  int rank = 0;
  int world_size = 0;  // 0: not set
  std::string store;
  std::string address;
  HostTransport transport = HostTransport::kAuto;  // transport for ranks on CPUs
  std::string membership_schedule;                 // empty: no replay
};

enum class TrainCommand { kTrain, kPrint, kCheckBuild, kDryRun };

struct ParsedCommandLine {
  TrainCommand command = TrainCommand::kTrain;
  std::string text;  // output of kPrint: help or version
  TrainOptions options;
};

// Returns the parsed flags. kInvalid, with a message: a flag is unknown or a value is bad.
Result<ParsedCommandLine> ParseCommandLine(int argc, const char* const* argv);

// Returns the names of all flags, such as "--seed".
std::vector<std::string> FlagNames();

}  // namespace ringmaster::trainer
