// ringmaster-bench: measures the trainer and what it stands on, and, where the tests' harness is
// built in, attacks it. Each subcommand says what it does with --help.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "worker/bench/collectives/collective_command.h"
#include "worker/bench/command.h"
#include "worker/bench/communicator_command.h"
#include "worker/bench/training/compression_command.h"
#include "worker/bench/training/throughput_command.h"
#if defined(RINGMASTER_BENCH_CHAOS)
#include "bench/chaos/commands.h"
#endif

namespace ringmaster::bench {
namespace {

std::vector<Command> AddCommands(CLI::App& app) {
  std::vector<Command> commands;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
        Collective::kAllToAll, Collective::kBroadcast}) {
    commands.push_back(AddCollective(app, collective));
  }
  commands.push_back(AddCommunicator(app));
  commands.push_back(AddCompression(app));
  commands.push_back(AddThroughput(app));
#if defined(RINGMASTER_BENCH_CHAOS)
  commands.push_back(chaos::AddChaos(app));
  commands.push_back(chaos::AddScale(app));
#endif
  return commands;
}

int Main(int argc, char** argv) {
  CLI::App app("Measures Ringmaster's training", kProgram);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", std::string(kProgram) + " " + RINGMASTER_VERSION);
  const std::vector<Command> commands = AddCommands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return Refuse(std::string(error.what()) + "; " + kProgram + " --help lists what there is");
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kBadInput;
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  try {
    return ringmaster::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", ringmaster::bench::kProgram, error.what());
    return 1;
  }
}
