#include "bench/any_program/step_log.h"

#include <chrono>
#include <sstream>

namespace ringmaster::any_program {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const std::vector<Step>& StepLog::Read() {
  std::ifstream file(path_);
  file.seekg(read_);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    Step step;
    std::istringstream(line) >> step.start >> step.step >> step.ranks >> step.at;
    steps_.push_back(step);
    read_ += static_cast<std::streamoff>(line.size()) + 1;
  }
  return steps_;
}

}  // namespace ringmaster::any_program
