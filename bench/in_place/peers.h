#pragma once

// What torchft and torchrun make of the faults that strike a job of ours.

#include <string>
#include <vector>

#include "bench/any_program/faults.h"

namespace ringmaster::in_place {

enum class Peer {
  kTorchft,       // as its documentation shows it
  kTorchftTuned,  // short limits, and gradients reduced by hand
  kTorchrun       // restarts all ranks from a checkpoint
};

struct PeerOptions {
  Peer peer = Peer::kTorchft;
  any_program::FaultKind fault = any_program::FaultKind::kKillRank;
  std::vector<int> victims;  // the workers that are struck, one after the other
  double every = 3;          // seconds of training before each
  int workers = 4;
  int limit = 120;         // seconds for a recovery
  std::string pythonpath;  // PyTorch's folder, and torchft's
  std::string folder;      // that all hosts see, with the scripts
};

// Strikes and prints a line for each fault and one JSON object. Throws std::runtime_error if the
// training does not go on at all.
void StrikePeer(const PeerOptions& options);

}  // namespace ringmaster::in_place
