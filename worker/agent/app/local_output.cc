#include "worker/agent/app/local_output.h"

#include <cstddef>

#include "common/process/captured_process.h"

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMaxLineBytes = 16384;  // a longer line is printed as several lines

}  // namespace

void LocalOutput::Print(int slot, int rank, bool is_stderr, std::string_view data) {
  const std::string mark =
      rank >= 0 ? "[rank " + std::to_string(rank) + "] " : "[slot " + std::to_string(slot) + "] ";
  std::string& line = unfinished_[{slot, is_stderr}];
  std::string whole_lines;
  for (const char c : data) {
    if (line.empty()) line = mark;
    if (c != '\n') line += c;
    if (c != '\n' && line.size() < kMaxLineBytes) continue;
    whole_lines += line + '\n';
    line.clear();
  }
  PassThrough(is_stderr, whole_lines);
}

void LocalOutput::Flush() {
  for (auto& [key, line] : unfinished_) {
    if (!line.empty()) PassThrough(key.second, line + '\n');
    line.clear();
  }
}

}  // namespace ringmaster::agent
