#pragma once

// An agent that sends its rank one world and then only reads messages, for measuring the overhead
// of a session while nothing happens.

#include <string>
#include <thread>

#include "common/control/rank_agent_messages.h"

namespace ringmaster::overhead {

// Serves one rank until the rank closes the connection.
class QuietAgent {
 public:
  // Listens on the unix socket `path`. Ends the process if that fails.
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
