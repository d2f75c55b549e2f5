#pragma once

// Completes the arguments of `kubectl trainingjob`. kubectl runs kubectl_complete-trainingjob with
// the arguments typed so far, ending with the one to complete, and reads one suggestion per line.

#include <string>
#include <vector>

namespace ringmaster::cli {

struct CompletedCommand {
  std::string name{};
  bool takes_job = false;
  std::vector<std::string> flags{};
};

// What to print; asks the API server for names where a name is to be completed.
std::string Complete(const std::vector<CompletedCommand>& commands,
                     const std::vector<std::string>& words);

}  // namespace ringmaster::cli
