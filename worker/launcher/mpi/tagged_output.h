#pragma once

// What ranks print, for the launcher's own streams: with the tag that mpirun --tag-output gives.

#include <string>
#include <string_view>

namespace ringmaster::launcher {

// Every line of `data` with "[<whose>]<stdout>: " or "<stderr>" in front; a last line without its
// newline gets one.
std::string TagLines(const std::string& whose, bool is_stderr, std::string_view data);

}  // namespace ringmaster::launcher
