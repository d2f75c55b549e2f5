#pragma once

// Splits a chunked HTTP body, such as a watch, into lines as they arrive. Used by the API client
// and the proxy after Beast has read the header (Beast's own body parser holds a line back until
// the next one arrives).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::testing {

class ChunkedLines {
 public:
  // Takes received bytes; returns the lines that they complete, each with its newline.
  std::vector<std::string> Append(std::string_view bytes);
  bool Ended() const { return ended_; }  // true: the last chunk has arrived

 private:
  bool TakeChunk();

  std::string raw_;   // not decoded yet
  std::string line_;  // decoded, without a newline yet
  bool ended_ = false;
};

}  // namespace ringmaster::testing
