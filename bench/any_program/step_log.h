#pragma once

// Reads the step log that train.py writes to its --steps file, while it is being written.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace ringmaster::any_program {

struct Step {
  double start = 0;  // time at which the ranks were started; identifies the start
  int64_t step = 0;
  int ranks = 0;
  double at = 0;  // time at which the step ended, in seconds, by Now()
};

// Returns the time in seconds, by the clock that train.py uses.
double Now();

class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  // Returns all steps logged so far, in the order of the file.
  const std::vector<Step>& Read();

 private:
  const std::string path_;
  std::streamoff read_ = 0;
  std::vector<Step> steps_;
};

}  // namespace ringmaster::any_program
