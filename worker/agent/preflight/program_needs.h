#pragma once

// What of the job's program only others can tell: its loader, which shared libraries are missing,
// and Python, for what its PyTorch is built. Each is asked by running it, which takes some 30 ms,
// and answers in what it prints (WorkerReadiness runs them). Pure but for reading the program's
// file.

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
  // An answer that says nothing, an empty one too, is not a finding.
  std::function<std::optional<Finding>(const std::string& answer)> judge;
};

// None where nothing has to be asked. `config` is not kept.
std::vector<Question> QuestionsAboutProgram(const Config& config);

}  // namespace ringmaster::agent
