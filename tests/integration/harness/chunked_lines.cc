#include "tests/integration/harness/chunked_lines.h"

#include <charconv>

namespace ringmaster::testing {

std::vector<std::string> ChunkedLines::Append(std::string_view bytes) {
  raw_ += bytes;
  while (!ended_ && TakeChunk()) {
  }
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(line_.substr(begin, end - begin + 1));
  }
  line_.erase(0, begin);
  return lines;
}

// Moves one whole chunk from raw_ to line_. Returns false if the chunk is not complete yet.
bool ChunkedLines::TakeChunk() {
  const std::size_t header = raw_.find("\r\n");
  if (header == std::string::npos) return false;
  std::size_t size = 0;
  const auto parsed = std::from_chars(raw_.data(), raw_.data() + header, size, 16);
  if (parsed.ec != std::errc() || size == 0) {
    ended_ = true;
    return false;
  }
  if (raw_.size() < header + 2 + size + 2) return false;
  line_.append(raw_, header + 2, size);
  raw_.erase(0, header + 2 + size + 2);
  return true;
}

}  // namespace ringmaster::testing
