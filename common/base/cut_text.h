#pragma once

// Texts of strangers (an API server, a webhook, a node) where there is a limit to what may be said.

#include <cstddef>
#include <string>

namespace ringmaster {

// At most `most_bytes` of a UTF-8 text, cut at a character's start: nobody takes half of one.
std::string CutText(std::string text, std::size_t most_bytes);

}  // namespace ringmaster
