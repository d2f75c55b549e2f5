#pragma once

// The last few lines of a stream, each cut to a bearable length: what a person wants to see of a
// program that failed.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::launcher {

class LastLines {
 public:
  static constexpr std::size_t kLines = 10;
  static constexpr std::size_t kLineBytes = 300;

  // Output as it comes; stdout and stderr are told apart only so that their lines do not mix.
  void Add(bool is_stderr, std::string_view data) {
    std::string& partial = partial_[is_stderr ? 1 : 0];
    for (const char c : data) {
      if (c == '\n') {
        Keep(partial);
        partial.clear();
      } else if (partial.size() < kLineBytes && c != '\r') {
        partial += c;
      }
    }
  }

  // With lines that are not complete yet.
  std::vector<std::string> Get() const {
    LastLines copy = *this;
    for (const std::string& partial : copy.partial_) copy.Keep(partial);
    return {copy.lines_.begin(), copy.lines_.end()};
  }

  void Clear() { *this = {}; }

 private:
  void Keep(const std::string& line) {
    if (line.empty()) return;
    lines_.push_back(line);
    if (lines_.size() > kLines) lines_.pop_front();
  }

  std::deque<std::string> lines_;
  std::string partial_[2];
};

}  // namespace ringmaster::launcher
