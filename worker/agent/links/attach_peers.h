#pragma once

// The connected attach processes. If a rank prints more than its attach reads, the agent stops
// reading the slot's output until the attach catches up. Used by agent.h.

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "worker/agent/links/local_peers.h"

namespace ringmaster::agent {

class AttachPeers {
 public:
  static constexpr std::size_t kMaxQueuedBytes = 1 << 20;  // limit on bytes queued for one attach

  // Stops or resumes reading the slot's output.
  using Pause = std::function<void(int slot, bool paused)>;
  explicit AttachPeers(Pause pause) : pause_(std::move(pause)) {}

  void Add(PeerId attach, int slot, int pid) { attaches_[attach] = {slot, pid}; }
  // Resumes reading the slot's output if it waits for this attach. Call when the connection is
  // lost, and also before closing it, because LocalPeers does not report a close.
  void Remove(PeerId attach);
  bool Contains(PeerId attach) const { return attaches_.contains(attach); }
  // Returns the pid, or -1 if the attach has ended, because its pid may be reused afterwards.
  int Pid(PeerId attach) const;
  // Records the process group of the attach's program; -1: the program has ended. REQUIRES:
  // Contains(attach).
  void SetGroup(PeerId attach, int group) { attaches_.at(attach).group = group; }
  // Returns the group that remains if the attach is killed, or -1.
  int Group(PeerId attach) const { return attaches_.at(attach).group; }

  // Call after sending to an attach; `bytes` is the number of bytes queued for the attach.
  void OnQueued(PeerId attach, std::size_t bytes);
  void OnDrained(PeerId attach);

 private:
  struct Attach {
    int slot = 0;
    int pid = -1;
    int group = -1;
  };

  const Pause pause_;
  std::map<PeerId, Attach> attaches_;
};

}  // namespace ringmaster::agent
