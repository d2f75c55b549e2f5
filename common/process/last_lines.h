#pragma once

// The last lines a program printed: what a verdict shows of a rank, or of an mpirun, that failed.
// Both streams go into one LastLines in the order they were read. A report of an error that other
// lines have pushed out is kept in front of them. Pure, no I/O.

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

  // Takes the next bytes of one stream. Empty lines are dropped, longer lines keep their beginning.
  void Append(bool is_stderr, std::string_view bytes);

  // Oldest first, at most kMaxLines; an unfinished line counts as a line. Control characters are
  // replaced by spaces. The newest traceback is among them.
  std::vector<std::string> Lines() const;

 private:
  void Finish(std::string* line);

  std::deque<std::string> finished_;
  std::string unfinished_[2];
  NewestTraceback traceback_;
};

}  // namespace ringmaster
