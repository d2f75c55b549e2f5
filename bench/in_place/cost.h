#pragma once

// Measures how much longer a step with the package takes than with plain DistributedDataParallel
// when nothing fails.
// Runs train.py --compare as a job.

#include <string>

namespace ringmaster::in_place {

struct CostOptions {
  int workers = 4;
  int rounds = 100;        // the number of blocks of each kind
  int block = 10;          // the number of steps per block
  bool audit = false;      // whether the ranks also write the audit log
  std::string pythonpath;  // the folder that contains PyTorch
  std::string folder;      // shared by all hosts; contains the scripts and the package
};

// Prints one JSON object. Throws std::runtime_error if the job does not succeed.
void MeasureCost(const CostOptions& options);

}  // namespace ringmaster::in_place
