#pragma once

// The subcommands of ringmaster-bench. Each adds its flags and gives back what runs it once they
// are parsed; main.cc picks the one that was asked for.

#include <functional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/base/result.h"

namespace ringmaster::bench {

inline constexpr char kProgram[] = "ringmaster-bench";
inline constexpr int kBadInput = 2;  // exit code, with a sentence on standard error

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit code
};

// Prints "ringmaster-bench: <what>" to standard error, and gives back `code`.
int Refuse(const std::string& what, int code = kBadInput);

// What --json asks for: one line into a file, to standard output ('-'), or nowhere (empty).
Result<void> WriteJson(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace ringmaster::bench
