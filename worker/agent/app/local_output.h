#pragma once

// Writes the output of the worker's ranks to the agent's standard streams, in whole lines prefixed
// with the rank, so that `kubectl logs` of the worker shows it.

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ringmaster::agent {

class LocalOutput {
 public:
  // `rank` is -1 for a process without a rank; its lines are prefixed with the slot instead.
  void Print(int slot, int rank, bool is_stderr, std::string_view data);

  // Prints the incomplete lines, each with a newline.
  void Flush();

 private:
  std::map<std::pair<int, bool>, std::string> unfinished_;  // (slot, is stderr) -> line and prefix
};

}  // namespace ringmaster::agent
