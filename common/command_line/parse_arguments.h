#pragma once

// Parses the command lines of Ringmaster's programs with CLI11. Handles "--flag=" itself: CLI11
// would read it as "--flag" and take the next argument as the value.

#include <CLI/CLI.hpp>

namespace ringmaster {

// Like app.parse(argc, argv), but accepts "--flag=" as an empty value if the flag takes a string,
// and rejects it if the flag takes another kind of value. Throws CLI::ParseError.
void ParseArguments(CLI::App& app, int argc, const char* const* argv);

}  // namespace ringmaster
