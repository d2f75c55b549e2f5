#include "common/process/last_lines.h"

#include <utility>

namespace ringmaster {
namespace {

bool IsBlank(const std::string& line) { return line.find_first_not_of(' ') == std::string::npos; }

}  // namespace

void LastLines::Append(bool is_stderr, std::string_view bytes) {
  std::string& line = unfinished_[is_stderr ? 1 : 0];
  for (const char c : bytes) {
    if (c == '\n' || c == '\r') {
      Finish(&line);
    } else if (line.size() < kMaxLineBytes) {
      const auto byte = static_cast<unsigned char>(c);
      line += byte < 0x20 || byte == 0x7f ? ' ' : c;
    }
  }
}

std::vector<std::string> LastLines::Lines() const {
  std::vector<std::string> lines(finished_.begin(), finished_.end());
  NewestTraceback traceback = traceback_;
  for (const std::string& line : unfinished_) {
    if (IsBlank(line)) continue;
    lines.push_back(line);
    traceback.Take(line);
  }
  std::size_t kept = kMaxLines - traceback.lines().size();
  if (traceback.lines_since() <= kept) kept = kMaxLines;  // the last lines include the traceback
  if (lines.size() > kept) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kept));
  }
  if (kept < kMaxLines) {
    lines.insert(lines.begin(), traceback.lines().begin(), traceback.lines().end());
  }
  return lines;
}

void LastLines::Finish(std::string* line) {
  if (!IsBlank(*line)) {
    traceback_.Take(*line);
    finished_.push_back(std::move(*line));
    if (finished_.size() > kMaxLines) finished_.pop_front();
  }
  line->clear();
}

}  // namespace ringmaster
