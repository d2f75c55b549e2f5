#include "operator/http/line_splitter.h"

namespace ringmaster::http {
namespace {

bool Deliver(std::string_view line, const LineSplitter::OnLine& on_line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line.empty() || on_line(line);
}

}  // namespace

Result<bool> LineSplitter::Append(std::string_view bytes, const OnLine& on_line) {
  const auto too_long = [this](std::size_t size) { return size > max_line_bytes_; };
  const Error error{ErrorKind::kInvalid,
                    "a line is longer than " + std::to_string(max_line_bytes_) + " bytes"};
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      if (too_long(partial_.size() + bytes.size())) return error;
      partial_.append(bytes);
      return true;
    }
    if (too_long(partial_.size() + newline)) return error;
    bool more = true;
    if (partial_.empty()) {
      more = Deliver(bytes.substr(0, newline), on_line);
    } else {
      partial_.append(bytes.substr(0, newline));
      more = Deliver(partial_, on_line);
      // One huge object must not hold its memory for the rest of the watch.
      if (partial_.capacity() > 64 * 1024) {
        partial_ = {};
      } else {
        partial_.clear();
      }
    }
    if (!more) return false;
    bytes.remove_prefix(newline + 1);
  }
  return true;
}

}  // namespace ringmaster::http
