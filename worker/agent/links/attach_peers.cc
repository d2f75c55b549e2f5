#include "worker/agent/links/attach_peers.h"

namespace ringmaster::agent {

void AttachPeers::Remove(PeerId attach) {
  OnDrained(attach);
  attaches_.erase(attach);
}

int AttachPeers::Pid(PeerId attach) const {
  const auto found = attaches_.find(attach);
  return found == attaches_.end() ? -1 : found->second.pid;
}

void AttachPeers::OnQueued(PeerId attach, std::size_t bytes) {
  const auto found = attaches_.find(attach);
  if (found != attaches_.end() && bytes >= kMaxQueuedBytes) pause_(found->second.slot, true);
}

void AttachPeers::OnDrained(PeerId attach) {
  const auto found = attaches_.find(attach);
  if (found != attaches_.end()) pause_(found->second.slot, false);
}

}  // namespace ringmaster::agent
