#pragma once

// A program with subcommands, such as ringmaster-bench and bench/chaos. Each subcommand adds its
// flags and returns the function to run after parsing. Does not depend on the trainer.

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/base/result.h"

namespace ringmaster::bench {

inline constexpr int kBadInput = 2;  // exit code, with a message on standard error

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // returns the exit code
};
using AddCommand = std::function<Command(CLI::App& app)>;

// Parses the command line, runs the named subcommand and returns its exit code. If the subcommand
// throws, prints the message and returns 1.
int RunProgram(const std::string& description, const std::vector<AddCommand>& subcommands, int argc,
               char** argv);

// Returns the name by which the program was started.
std::string ProgramName();

// Prints "<program>: <what>" to standard error, and returns `code`.
int Refuse(const std::string& what, int code = kBadInput);

// Writes the JSON line to the file `path`, to standard output ('-'), or nowhere (empty).
Result<void> WriteJson(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace ringmaster::bench
