#pragma once

// Describes what a rank with these flags would do, for --dry-run. A dry run loads data and model,
// but does not contact peers or write files.

#include <cstdint>
#include <string>
#include <vector>

namespace ringmaster::trainer {

struct RunFacts {
  std::string workload{};
  std::string device{};
  std::string data{};  // --data
  int64_t training_samples = 0;
  int64_t held_out_samples = 0;
  int64_t steps = 0;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;  // 0: not set
  int ranks = 1;            // maximum number of ranks of the job, if known
  int64_t parameters = 0;   // number of parameters that are replicated
  int64_t state_bytes = 0;  // size of the replicated parameters and optimizer state
  int64_t classes = 0;      // number of classes with sharded centres; 0: none
  int64_t embedding = 0;    // number of floats in a centre
  double sample_rate = 1;   // fraction of the classes that a step samples
  std::vector<int64_t> bucket_bytes{};
  std::string precision{};
  std::string compression{};
  std::string checkpoint_dir{};  // empty: none
  int64_t checkpoint_every = 0;
};

// Returns a description of the training in a few lines, for users.
std::string DryRunText(const RunFacts& facts);

}  // namespace ringmaster::trainer
