#pragma once

// Writes the output of ranks to the launcher's streams, with the tags of mpirun --tag-output.

#include <string>
#include <string_view>

namespace ringmaster::launcher {

// Every line of `data` with "[<whose>]<stdout>: " or "<stderr>" in front; a last line without its
// newline gets one.
std::string TagLines(const std::string& whose, bool is_stderr, std::string_view data);

}  // namespace ringmaster::launcher
