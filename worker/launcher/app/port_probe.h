#pragma once

// Checks whether a port refuses connections, which proves that the agent is dead: the Pod's network
// answers and nothing listens. Timeouts and other errors prove nothing. At most kMaxAtOnce probes
// run at a time; further ones report "not refused". Runs on the thread of one io_context.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

namespace ringmaster::launcher {

class PortProbe {
 public:
  static constexpr std::chrono::milliseconds kLimit{100};
  static constexpr int kMaxAtOnce = 64;

  explicit PortProbe(boost::asio::io_context& io) : io_(io) {}

  // Calls `answer` once, after Ask() has returned, unless this object is destroyed before.
  void Ask(const std::string& address, int port, std::function<void(bool refused)> answer);

 private:
  boost::asio::io_context& io_;
  std::shared_ptr<int> running_ = std::make_shared<int>(0);  // probes call `answer` while it exists
};

}  // namespace ringmaster::launcher
