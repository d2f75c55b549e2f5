// ringmaster-bench: measures the trainer and the libraries that it uses. Each subcommand describes
// itself with --help.

#include <vector>

#include "worker/bench/collectives/commands.h"
#include "worker/bench/harness/command.h"
#include "worker/bench/training/commands.h"

int main(int argc, char** argv) {
  using namespace ringmaster::bench;
  std::vector<AddCommand> subcommands;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
        Collective::kAllToAll, Collective::kBroadcast, Collective::kReduce, Collective::kGather,
        Collective::kScatter, Collective::kSendRecv}) {
    subcommands.push_back([collective](CLI::App& app) { return AddCollective(app, collective); });
  }
  subcommands.insert(subcommands.end(), {AddCommunicator, AddCompression, AddThroughput});
  return RunProgram("Measures Ringmaster's training", subcommands, argc, argv);
}
