#pragma once

// Bytes in, lines out: a watch delivers one JSON event a line, cut anywhere by the network.
// Bounded, so that a peer that never sends a newline cannot take our memory. Used by
// kube/KubeClient::Watch. Not thread-safe.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ringmaster::http {

class LineSplitter {
 public:
  // Receives a line without its newline (nor a carriage return before it), valid during the call;
  // empty lines are skipped. Returns false to stop.
  using OnLine = std::function<bool(std::string_view)>;

  explicit LineSplitter(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `on_line` for each line that `bytes` completes. True while `on_line` wants more; kInvalid
  // when a line is longer than the maximum, after which the splitter must not be used. A last line
  // without newline is never delivered.
  Result<bool> Append(std::string_view bytes, const OnLine& on_line);

 private:
  const std::size_t max_line_bytes_;
  std::string partial_;
};

}  // namespace ringmaster::http
