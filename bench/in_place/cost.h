#pragma once

// What a step through the package costs when nothing fails, beside plain DistributedDataParallel:
// train.py
// --compare as a job.

#include <string>

namespace ringmaster::in_place {

struct CostOptions {
  int workers = 4;
  int rounds = 20;         // blocks of each kind
  int block = 50;          // steps
  bool audit = false;      // ranks write the audit log too
  std::string pythonpath;  // PyTorch's folder
  std::string folder;      // that all hosts see, with the scripts and the package
};

// Prints one JSON object. Throws std::runtime_error if the job does not succeed.
void MeasureCost(const CostOptions& options);

}  // namespace ringmaster::in_place
