#pragma once

// How our programs parse their command lines. CLI11 by itself reads "--flag=" as it reads "--flag"
// and takes the next argument for the value.

#include <CLI/CLI.hpp>

namespace ringmaster {

// app.parse(argc, argv), but "--flag=" gives a flag that takes a text the empty text. A flag that
// takes something else is refused without a value. Throws CLI::ParseError.
void ParseArguments(CLI::App& app, int argc, const char* const* argv);

}  // namespace ringmaster
