#pragma once

// A blocking client for messages over a unix socket, without Asio. Calls block up to a deadline.
// The trainer uses it to connect to its agent, and ringmaster-rsh to connect to the launcher.
//
// Thread-safe: one thread may receive while others send; Shutdown() may be called from any thread
// and wakes all of them.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/control/messages.h"

namespace ringmaster::control {

class BlockingLineClient {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects, or fails immediately. kUnavailable: no process listens.
  static Result<std::unique_ptr<BlockingLineClient>> Connect(const std::string& socket_path);

  ~BlockingLineClient();
  BlockingLineClient(const BlockingLineClient&) = delete;
  BlockingLineClient& operator=(const BlockingLineClient&) = delete;

  // Writes the whole message. kTimeout: the peer did not read it in time; the connection is then
  // unusable (half a line may have been sent) and shut down. kUnavailable: the peer closed.
  // kInvalid: the message exceeds the maximum line length.
  Result<void> Send(const Message& message, Deadline deadline);

  // Returns the next message. kTimeout: there is none yet, so call again. kUnavailable: the peer
  // closed or Shutdown() was called. kInvalid: the peer sent an invalid message; unknown types are
  // skipped. Only one thread may call it at a time.
  Result<Message> Receive(Deadline deadline);

  // Closes both directions; blocked and later calls return kUnavailable.
  void Shutdown();

 private:
  explicit BlockingLineClient(int fd) : fd_(fd) {}

  const int fd_;

  Mutex send_mutex_;

  // Used only by the receiving thread.
  std::string buffer_;
  std::size_t scanned_ = 0;  // buffer_ has no newline before this offset
};

}  // namespace ringmaster::control
