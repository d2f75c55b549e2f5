#pragma once

// Finds requirements of the job's program that only other programs can report: the loader lists
// missing shared libraries, and Python reports how its PyTorch was built. WorkerReadiness runs
// these programs, which takes about 30 ms each; the functions here build the commands and parse the
// output. They do no I/O except for reading the program's file.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/agent/config/config.h"
#include "worker/agent/preflight/preflight.h"

namespace ringmaster::agent {

struct Question {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=VALUE"
  // Returns nothing for an answer without information, such as an empty one.
  std::function<std::optional<Finding>(const std::string& answer)> judge;
};

// Returns the commands to run, possibly none. Does not keep a reference to `config`.
std::vector<Question> QuestionsAboutProgram(const Config& config);

}  // namespace ringmaster::agent
