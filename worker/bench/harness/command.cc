#include "worker/bench/harness/command.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>

#include "common/command_line/parse_arguments.h"

namespace ringmaster::bench {
namespace {

int Run(const std::string& description, const std::vector<AddCommand>& subcommands, int argc,
        char** argv) {
  const std::string program = ProgramName();
  CLI::App app(description, program);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", program + " " + RINGMASTER_VERSION);
  std::vector<Command> commands;
  for (const AddCommand& add : subcommands) commands.push_back(add(app));
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Refuse(std::string(error.what()) + "; " + program + " --help lists the options");
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kBadInput;
}

}  // namespace

int RunProgram(const std::string& description, const std::vector<AddCommand>& subcommands, int argc,
               char** argv) {
  try {
    return Run(description, subcommands, argc, argv);
  } catch (const std::exception& error) {
    return Refuse(error.what(), 1);
  }
}

std::string ProgramName() { return program_invocation_short_name; }

int Refuse(const std::string& what, int code) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  return code;
}

Result<void> WriteJson(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return {};
  if (path == "-") {
    std::printf("%s\n", json.dump().c_str());
    return {};
  }
  std::ofstream file(path);
  file << json.dump() << "\n";
  file.close();
  if (file) return {};
  return Error{ErrorKind::kUnavailable, "while writing " + path + ": cannot write"};
}

}  // namespace ringmaster::bench
