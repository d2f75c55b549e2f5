#pragma once

// Measures how torchft and torchrun handle the faults that the figures inject into Ringmaster jobs.

#include <string>
#include <vector>

#include "bench/any_program/faults.h"

namespace ringmaster::in_place {

enum class Peer {
  kTorchft,       // torchft as configured in its documentation
  kTorchftTuned,  // torchft with short time limits, and gradients reduced by the script
  kTorchrun       // torchrun, which restarts all ranks from a checkpoint
};

struct PeerOptions {
  Peer peer = Peer::kTorchft;
  any_program::FaultKind fault = any_program::FaultKind::kKillRank;
  std::vector<int> victims;  // workers into which the fault is injected, one after the other
  double every = 3;          // seconds of training before each fault
  int workers = 4;
  int limit = 120;         // maximum time for a recovery, in seconds
  std::string pythonpath;  // the folders that contain PyTorch and torchft
  std::string folder;      // shared by all hosts; contains the scripts
};

// Injects the faults, and prints a line for each fault and one JSON object. Throws
// std::runtime_error if training does not continue.
void StrikePeer(const PeerOptions& options);

}  // namespace ringmaster::in_place
