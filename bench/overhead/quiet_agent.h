#pragma once

// An agent that gives its rank one world and then only listens: what is left of an agent when
// nothing happens.

#include <string>
#include <thread>

#include "common/control/rank_agent_messages.h"

namespace ringmaster::overhead {

// Serves one rank, until that closes the connection.
class QuietAgent {
 public:
  // Listens at the unix socket `path`. Ends the process where that cannot be.
  QuietAgent(const std::string& path, const control::RankEpoch& world);
  ~QuietAgent();
  QuietAgent(const QuietAgent&) = delete;
  QuietAgent& operator=(const QuietAgent&) = delete;

 private:
  void Serve(const std::string& greeting) const;

  int listener_ = -1;
  std::jthread thread_;
};

}  // namespace ringmaster::overhead
