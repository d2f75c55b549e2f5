#include "operator/http/line_splitter.h"

namespace ringmaster::http {
namespace {

bool Deliver(std::string_view line, const LineSplitter::OnLine& on_line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line.empty() || on_line(line);
}

}  // namespace

bool LineSplitter::Append(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      Keep(bytes);
      return true;
    }
    const std::string_view rest = bytes.substr(0, newline);
    bool more = true;
    if (partial_.empty() && rest.size() <= max_line_bytes_) {
      if (!passing_over_) more = Deliver(rest, on_line);
    } else {
      Keep(rest);
      if (!passing_over_) more = Deliver(partial_, on_line);
      // Release the memory of a huge object before the watch continues.
      if (partial_.capacity() > 64 * 1024) {
        partial_ = {};
      } else {
        partial_.clear();
      }
    }
    passing_over_ = false;
    if (!more) return false;
    bytes.remove_prefix(newline + 1);
  }
  return true;
}

void LineSplitter::Keep(std::string_view bytes) {
  if (passing_over_) return;
  if (partial_.size() + bytes.size() <= max_line_bytes_) {
    partial_.append(bytes);
    return;
  }
  partial_.append(bytes.substr(0, max_line_bytes_ - partial_.size()));
  passing_over_ = true;
  if (on_long_line_) on_long_line_(partial_);
  partial_ = {};
}

}  // namespace ringmaster::http
