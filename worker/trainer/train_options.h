#pragma once

// The flags of ringmaster-train, checked before anything starts.

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace ringmaster::trainer {

struct TrainOptions {
  std::string workload = "mnist";
  std::string data = "generated";  // a folder of IDX files, or "generated"
  int64_t generated_samples = 8192;
  int max_shift = 0;
  int64_t global_batch = 64;
  int64_t epochs = 5;
  int64_t steps = 0;  // 0: as many as the epochs need
  double learning_rate = 0.03;
  std::string schedule = "cosine";
  double momentum = 0.9;
  uint64_t seed = 1;
  std::string step_log = "-";
  std::string audit_log;       // empty: none
  std::string checkpoint_dir;  // empty: no checkpoints
  int64_t checkpoint_every = 500;
  int checkpoint_keep = 3;
  std::string snapshot_dir;  // empty: no snapshots
  int64_t log_every = 1;
  std::chrono::milliseconds timeout{30'000};
  int threads = 1;  // 0: the processor's cores over the ranks on this host
  std::string device = "auto";

  // A world given by hand; without it the agent's, or a single process.
  int rank = 0;
  int world_size = 0;  // 0: not given
  std::string store;
  std::string address;
  std::string membership_schedule;  // empty: nothing is replayed
};

enum class TrainCommand { kTrain, kPrint, kCheckBuild };

struct ParsedCommandLine {
  TrainCommand command = TrainCommand::kTrain;
  std::string text;  // of kPrint: help or version
  TrainOptions options;
};

// kInvalid: an unknown flag or a bad value, in a sentence.
Result<ParsedCommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace ringmaster::trainer
