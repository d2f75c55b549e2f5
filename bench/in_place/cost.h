#pragma once

// Measures the cost of a step through the package when nothing fails, compared to plain
// DistributedDataParallel.
// Runs train.py --compare as a job.

#include <string>

namespace ringmaster::in_place {

struct CostOptions {
  int workers = 4;
  int rounds = 20;         // the number of blocks of each kind
  int block = 50;          // the number of steps per block
  bool audit = false;      // the ranks also write the audit log
  std::string pythonpath;  // the folder of PyTorch
  std::string folder;      // shared by all hosts; has the scripts and the package
};

// Prints one JSON object. Throws std::runtime_error if the job does not succeed.
void MeasureCost(const CostOptions& options);

}  // namespace ringmaster::in_place
