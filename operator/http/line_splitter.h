#pragma once

// Splits a stream of bytes into lines. A watch delivers one JSON event per line, in
// chunks of any size. Memory is bounded: a line that is too long is skipped, and
// the lines after it are still read. Used by kube/KubeClient::Watch. Not
// thread-safe.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ringmaster::http {

class LineSplitter {
 public:
  // Receives a line without its line ending (\n or \r\n), valid during the call. Empty lines are
  // skipped. Returns false to stop.
  using OnLine = std::function<bool(std::string_view)>;
  // Receives the start of a line that is too long, up to the maximum length.
  using OnLongLine = std::function<void(std::string_view)>;

  explicit LineSplitter(std::size_t max_line_bytes, OnLongLine on_long_line = {})
      : max_line_bytes_(max_line_bytes), on_long_line_(std::move(on_long_line)) {}

  // Calls `on_line` for each line that `bytes` completes. Stops and returns false if `on_line`
  // returns false. A last line without newline is never delivered.
  bool Append(std::string_view bytes, const OnLine& on_line);

 private:
  // Keeps the start of a line that does not end in `bytes`.
  void Keep(std::string_view bytes);

  const std::size_t max_line_bytes_;
  const OnLongLine on_long_line_;
  std::string partial_;
  bool passing_over_ = false;  // whether the current line is too long and was reported
};

}  // namespace ringmaster::http
