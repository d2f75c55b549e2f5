#pragma once

// Parses the command lines of Ringmaster's programs with CLI11. Rejects "--flag=": CLI11 itself
// would read it as "--flag" and take the next argument as the value.

#include <CLI/CLI.hpp>

namespace ringmaster {

// app.parse(argc, argv), but "--flag=" gives a flag that takes a text the empty text. A flag that
// takes something else is refused without a value. Throws CLI::ParseError.
void ParseArguments(CLI::App& app, int argc, const char* const* argv);

}  // namespace ringmaster
