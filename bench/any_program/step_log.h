#pragma once

// What train.py writes into its --steps, while it does.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace ringmaster::any_program {

struct Step {
  double start = 0;  // when the ranks of this start began: tells one start from another
  int64_t step = 0;
  int ranks = 0;
  double at = 0;  // seconds, as Now() counts
};

// For the clock that train.py reads, too.
double Now();

class StepLog {
 public:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  // All steps that are logged by now, in the order in which they were written.
  const std::vector<Step>& Read();

 private:
  const std::string path_;
  std::streamoff read_ = 0;
  std::vector<Step> steps_;
};

}  // namespace ringmaster::any_program
