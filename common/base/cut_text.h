#pragma once

// Shortens text from other parties (an API server, a webhook, a node) to a length limit.

#include <cstddef>
#include <string>

namespace ringmaster {

// At most `most_bytes` of a UTF-8 text, never cut within a character.
std::string CutText(std::string text, std::size_t most_bytes);

}  // namespace ringmaster
