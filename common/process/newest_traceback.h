#pragma once

// Extracts the newest error report from a program's output: Python's traceback, the messages of
// glog and the C++ runtime before an abort, or Rust's panic. Other lines may follow it, such as
// torchrun's summary. Used by last_lines.h. Does no I/O.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace ringmaster {

class NewestTraceback {
 public:
  static constexpr std::size_t kMaxLines = 7;
  // It is forgotten after so many other lines: the program went on.
  static constexpr std::size_t kForgottenAfter = 200;

  // The next line that is not blank.
  void Take(const std::string& line);

  // At most kMaxLines, those that say most: of Python's the last, of the others the first.
  const std::deque<std::string>& lines() const { return lines_; }
  // The number of lines after the last one of lines().
  std::size_t lines_since() const { return since_; }

 private:
  enum class Kind { kNone, kPython, kOther };

  bool Begins(std::string_view line);
  void Continue(std::string_view text, const std::string& line);

  Kind open_ = Kind::kNone;  // its end has not been seen
  std::string prefix_;       // "[rank0]: ": several ranks print into one stream
  std::deque<std::string> lines_;
  std::size_t since_ = 0;
};

}  // namespace ringmaster
