// ringmaster-tools: the programs agent, attach, audit, launcher and rsh in one file. The name by
// which it is called, or its first argument, selects the program.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <openssl/crypto.h>

#include "common/command_line/parse_arguments.h"
#include "common/control/pod_contract.h"
#include "worker/agent/app/agent_main.h"
#include "worker/agent/attach/attach_main.h"
#include "worker/audit/audit_main.h"
#include "worker/launcher/app/launcher_main.h"
#include "worker/launcher/rsh/rsh_main.h"
#include "worker/tools/install.h"

namespace ringmaster::tools {
namespace {

struct Program {
  std::string_view name;
  int (*main)(int argc, char** argv);
};

constexpr std::string_view kPrefix = "ringmaster-";
constexpr Program kPrograms[] = {{"agent", agent::Main},
                                 {"attach", agent::AttachMain},
                                 {"audit", audit::Main},
                                 {"launcher", launcher::Main},
                                 {"rsh", launcher::RshMain}};

// Returns the program with this name; null if there is none.
const Program* Named(std::string_view name) {
  for (const Program& program : kPrograms) {
    if (program.name == name) return &program;
  }
  return nullptr;
}

// Returns the program that the last part of this path names; null if it does not name one.
const Program* Called(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with(kPrefix) ? Named(name.substr(kPrefix.size())) : nullptr;
}

std::vector<std::string> Names() {
  std::vector<std::string> names{std::string(kPrefix) + "tools"};
  for (const Program& program : kPrograms) {
    names.push_back(std::string(kPrefix).append(program.name));
  }
  return names;
}

// Returns the Python package's folder. In the image, it is in `lib` beside this program's folder.
std::filesystem::path OwnPackage() {
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return program.parent_path().parent_path() / control::kPythonFolder;
}

int RunTools(int argc, char** argv) {
  CLI::App app("Ringmaster's programs for the Pods of a job, in a single static file.",
               "ringmaster-tools");
  app.set_version_flag("--version", RINGMASTER_VERSION);
  app.require_subcommand(1);
  app.footer(
      "ringmaster-tools agent|attach|audit|launcher|rsh ARGUMENTS runs that program, as does a "
      "link\nwith its name.");
  std::string folder;
  app.add_subcommand(
         "install",
         "copy this file to FOLDER/bin, create links for the programs and add the Python package")
      ->add_option("FOLDER", folder)
      ->required();
  try {
    ParseArguments(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const Result<void> installed = Install({"/proc/self/exe", Names(), OwnPackage()}, folder);
  if (installed.ok()) return 0;
  std::fprintf(stderr, "ringmaster-tools: %s\n", installed.error().message.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  // The OpenSSL configuration of a user's image may load modules that do not work in this program.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  if (const Program* const called = argc > 0 ? Called(argv[0]) : nullptr; called != nullptr) {
    return called->main(argc, argv);
  }
  if (const Program* const named = argc > 1 ? Named(argv[1]) : nullptr; named != nullptr) {
    return named->main(argc - 1, argv + 1);
  }
  return RunTools(argc, argv);
}

}  // namespace
}  // namespace ringmaster::tools

int main(int argc, char** argv) {
  try {
    return ringmaster::tools::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-tools: %s\n", error.what());
    return 1;
  }
}
