#pragma once

// Writes the output of ranks to the launcher's streams, with the tags of mpirun --tag-output.

#include <string>
#include <string_view>

namespace ringmaster::launcher {

// Puts "[<whose>]<stdout>: " or "[<whose>]<stderr>: " before each line of `data`. Adds a newline to
// the last line if it has none.
std::string TagLines(const std::string& whose, bool is_stderr, std::string_view data);

}  // namespace ringmaster::launcher
