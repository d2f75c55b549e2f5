#include "common/process/newest_traceback.h"

#include <algorithm>
#include <cctype>

namespace ringmaster {
namespace {

// Ranks that lost a peer print their reports after the report of the rank that failed. A later
// report replaces an earlier one only after this many other lines.
constexpr std::size_t kAnotherFailure = 50;
constexpr std::size_t kLongestPrefix = 64;

constexpr std::string_view kPython = "Traceback (most recent call last):";
constexpr std::string_view kTerminate = "terminate called ";

bool IsMarkers(std::string_view text) {
  return text.find_first_not_of(" ^~") == std::string_view::npos;
}

// Matches "F1126 10:20:30.123456 …"; the date has four or eight digits.
bool IsGlogFatal(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (text.empty() || text.front() != 'F' || (space != 5 && space != 9)) return false;
  for (const char c : text.substr(1, space - 1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return text.size() > space + 3 && text[space + 3] == ':';
}

bool IsPanic(std::string_view text) {
  return text.starts_with("thread '") && text.find(" panicked at ") != std::string_view::npos;
}

// Returns the position at which a report begins in a line; npos if there is none.
std::size_t BeginningOfOther(std::string_view line) {
  std::string_view text = line;
  if (line.starts_with('[')) {  // a prefix such as "[rank0]: " or "[default0]:"
    const std::size_t end = line.find("]:");
    if (end == std::string_view::npos) return std::string_view::npos;
    text = line.substr(std::min(line.size(), line.find_first_not_of(' ', end + 2)));
  }
  const bool begins = IsGlogFatal(text) || IsPanic(text) || text.starts_with(kTerminate);
  return begins ? line.size() - text.size() : std::string_view::npos;
}

}  // namespace

void NewestTraceback::Take(const std::string& line) {
  if (Begins(line)) return;
  const std::string_view whole = line;
  if (open_ == Kind::kNone || !whole.starts_with(prefix_)) {
    if (++since_ > kForgottenAfter) lines_.clear();
    return;
  }
  Continue(whole.substr(prefix_.size()), line);
}

bool NewestTraceback::Begins(std::string_view line) {
  std::size_t at = line.find(kPython);
  const Kind kind = at == std::string_view::npos ? Kind::kOther : Kind::kPython;
  if (kind == Kind::kOther) at = BeginningOfOther(line);
  if (at == std::string_view::npos || at > kLongestPrefix) return false;
  const std::string_view prefix = line.substr(0, at);
  if (!lines_.empty() && prefix != prefix_ && since_ < kAnotherFailure) return false;
  open_ = kind;
  prefix_ = prefix;
  lines_ = {std::string(line)};
  since_ = 0;
  return true;
}

// REQUIRES: `text` is `line` without the prefix_ of the open report.
void NewestTraceback::Continue(std::string_view text, const std::string& line) {
  if (IsMarkers(text)) return;
  if (open_ == Kind::kPython) {
    if (lines_.size() == kMaxLines) lines_.pop_front();
    if (!text.starts_with(' ')) open_ = Kind::kNone;  // the exception ends the report
  } else if (lines_.size() == kMaxLines) {
    open_ = Kind::kNone;
    ++since_;
    return;
  }
  lines_.push_back(line);
  since_ = 0;
}

}  // namespace ringmaster
