#pragma once

// Reads the step log that train.py writes to its --steps file, while it is being written.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace ringmaster::any_program {

struct Step {
  double start = 0;  // start time of this run of the ranks; identifies the run
  int64_t step = 0;
  int ranks = 0;
  double at = 0;  // seconds, on the clock of Now()
};

// Reads the clock that train.py reads too.
double Now();

class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  // All steps logged so far, in the order of writing.
  const std::vector<Step>& Read();

 private:
  const std::string path_;
  std::streamoff read_ = 0;
  std::vector<Step> steps_;
};

}  // namespace ringmaster::any_program
