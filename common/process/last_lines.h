#pragma once

// Keeps the last lines that a program printed. They are shown if a rank or mpirun fails.
// Append both streams to one LastLines in the order in which they were read. If later lines
// displace an error report, the newest report is kept and precedes these lines. Does no I/O.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/process/newest_traceback.h"

namespace ringmaster {

class LastLines {
 public:
  static constexpr std::size_t kMaxLines = 10;
  static constexpr std::size_t kMaxLineBytes = 300;

  // Takes the next bytes of one stream. Drops empty lines, and cuts the end of longer lines.
  void Append(bool is_stderr, std::string_view bytes);

  // Oldest first, at most kMaxLines. An unfinished line counts as a line. Control characters are
  // replaced by spaces. The newest traceback is included.
  std::vector<std::string> Lines() const;

 private:
  void Finish(std::string* line);

  std::deque<std::string> finished_;
  std::string unfinished_[2];
  NewestTraceback traceback_;
};

}  // namespace ringmaster
