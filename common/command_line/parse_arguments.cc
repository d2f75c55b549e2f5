#include "common/command_line/parse_arguments.h"

#include <string>
#include <vector>

namespace ringmaster {
namespace {

bool TakesText(const CLI::Option& option) {
  return option.get_type_name().starts_with("TEXT") && option.get_items_expected_max() == 1;
}

const CLI::App& CommandAfter(const CLI::App& command, const std::string& argument) {
  for (const CLI::App* subcommand : command.get_subcommands({})) {
    if (subcommand->check_name(argument)) return *subcommand;
  }
  return command;
}

// Splits "--flag=" into the arguments "--flag" and "" if that flag of `command` takes a string.
std::vector<std::string> Separated(const CLI::App& command, const std::string& argument) {
  if (!argument.starts_with("--") || argument.find('=') != argument.size() - 1) return {argument};
  const std::string name = argument.substr(0, argument.size() - 1);
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr || option->get_items_expected_max() == 0) return {argument};
  if (!TakesText(*option)) throw CLI::ValidationError(name, "expected a value after '='");
  return {name, ""};
}

}  // namespace

void ParseArguments(CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  const CLI::App* command = &app;
  bool all_positional = false;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    all_positional = all_positional || argument == "--";
    if (i == 0 || all_positional) {
      arguments.push_back(argument);
      continue;
    }
    command = &CommandAfter(*command, argument);
    for (std::string& each : Separated(*command, argument)) arguments.push_back(std::move(each));
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  app.parse(static_cast<int>(pointers.size()), pointers.data());
}

}  // namespace ringmaster
