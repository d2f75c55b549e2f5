#pragma once

// A connection without a network: the test passes the peer's messages to the handlers.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/control/line_connection.h"

namespace ringmaster::launcher {

// Records the calls. The test calls the handlers.
class FakeConnection final : public control::LineConnection {
 public:
  void Start(Handlers chosen) override { handlers = std::move(chosen); }
  void Send(const control::Message& message) override { sent.emplace_back(TypeName(message)); }
  void SendNow(const control::Message& message) override { Send(message); }
  void SendShared(const control::SharedLine& line) override { sent.emplace_back(line.type); }
  void Close(const std::string& reason) override { closed = reason; }
  void Finish(const std::string& reason) override { finished = reason; }
  void SetMaxLineBytes(std::size_t bytes) override { max_line_bytes = bytes; }
  bool open() const override { return closed.empty(); }
  std::size_t queued_bytes() const override { return 0; }
  const std::string& peer() const override { return name; }
  std::optional<control::UnixPeer> unix_peer() const override { return {}; }

  Handlers handlers;
  std::vector<std::string> sent;
  std::string closed;
  std::string finished;
  std::size_t max_line_bytes = 0;
  std::string name = "10.0.0.1:1234";
};

}  // namespace ringmaster::launcher
