#pragma once

// The lines of a chunked HTTP body as they arrive: what a watch is. Used by the API client and the
// proxy after Beast has read the header (its own body parser holds a line back until the next one
// comes).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmaster::testing {

class ChunkedLines {
 public:
  // Takes bytes as they came; returns the lines they complete, each with its newline.
  std::vector<std::string> Append(std::string_view bytes);
  bool Ended() const { return ended_; }  // the last chunk came

 private:
  bool TakeChunk();

  std::string raw_;   // not decoded yet
  std::string line_;  // decoded, without a newline yet
  bool ended_ = false;
};

}  // namespace ringmaster::testing
