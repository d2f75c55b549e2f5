#pragma once

// Completes the arguments of `kubectl trainingjob`. kubectl runs kubectl_complete-trainingjob with
// the arguments typed so far, including the incomplete last one, and reads a suggestion per line.

#include <string>
#include <vector>

namespace ringmaster::cli {

struct CompletedCommand {
  std::string name{};
  bool takes_job = false;
  std::vector<std::string> flags{};
  // The names, also short ones, of all flags that are followed by a value.
  std::vector<std::string> flags_with_value{};
};

// Returns the text to print; asks the API server for names to complete.
std::string Complete(const std::vector<CompletedCommand>& commands,
                     const std::vector<std::string>& words);

}  // namespace ringmaster::cli
