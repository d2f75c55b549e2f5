#include "cli/json_stream.h"

#include <utility>

namespace ringmaster::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

}  // namespace

void JsonStream::Add(std::string_view data) {
  for (const char c : data) {
    if (depth_ == 0 && c != '{') continue;
    if (object_.size() < kMostBytes) object_ += c;
    if (in_text_) {
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_text_ = true;
    } else if (c == '{') {
      ++depth_;
    } else if (c == '}' && --depth_ == 0) {
      const std::string whole = std::exchange(object_, {});
      if (whole.size() < kMostBytes) on_object_(whole);
    }
  }
}

}  // namespace ringmaster::cli
