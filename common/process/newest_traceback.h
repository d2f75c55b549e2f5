#pragma once

// Extracts the newest error report from a program's output: Python's traceback, the messages of
// glog and the C++ runtime before an abort, or a Rust panic. Other lines may follow the report,
// such as torchrun's summary. Used by last_lines.h. Does no I/O.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace ringmaster {

class NewestTraceback {
 public:
  static constexpr std::size_t kMaxLines = 7;
  // The report is dropped after this many other lines, because the program has continued.
  static constexpr std::size_t kForgottenAfter = 200;

  // Takes the next line that is not blank.
  void Take(const std::string& line);

  // At most kMaxLines of the report: the last ones of a Python report, the first ones of others.
  const std::deque<std::string>& lines() const { return lines_; }
  // The number of lines that came after the last one of lines().
  std::size_t lines_since() const { return since_; }

 private:
  enum class Kind { kNone, kPython, kOther };

  bool Begins(std::string_view line);
  void Continue(std::string_view text, const std::string& line);

  Kind open_ = Kind::kNone;  // kind of the report whose end has not been seen
  std::string prefix_;       // for example "[rank0]: ": several ranks print into one stream
  std::deque<std::string> lines_;
  std::size_t since_ = 0;
};

}  // namespace ringmaster
