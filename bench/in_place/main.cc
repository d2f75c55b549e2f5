// The parts of figure B17 that ringmaster-chaos does not measure (bench/in_place/figure.sh): the
// cost of a step, and how torchft and torchrun handle the same faults. It is built with the tests.

#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "bench/in_place/cost.h"
#include "bench/in_place/peers.h"
#include "tests/runtime/hosts.h"

namespace ringmaster::in_place {
namespace {

constexpr int kSkipped = 77;

const std::map<std::string, Peer> kPeers{{"torchft", Peer::kTorchft},
                                         {"torchft-tuned", Peer::kTorchftTuned},
                                         {"torchrun", Peer::kTorchrun}};
const std::map<std::string, any_program::FaultKind> kFaults{
    {"kill-rank", any_program::FaultKind::kKillRank}, {"cut", any_program::FaultKind::kCut}};

template <typename Options>
void AddCommon(CLI::App& app, Options& options) {
  app.add_option("--folder", options.folder, "folder of the scripts, visible to all hosts")
      ->required();
  app.add_option("--pythonpath", options.pythonpath, "folders of PyTorch and of a peer")
      ->required();
  app.add_option("--workers", options.workers, "number of workers with one rank each")
      ->check(CLI::Range(2, 16));
}

}  // namespace

int Main(int argc, char** argv) {
  CostOptions cost;
  PeerOptions peer;
  CLI::App app("Parts of figure B17");
  app.require_subcommand(1);
  CLI::App& cost_command =
      *app.add_subcommand("cost", "measure the cost of a step relative to plain PyTorch");
  AddCommon(cost_command, cost);
  cost_command.add_option("--rounds", cost.rounds, "number of blocks of each kind")
      ->check(CLI::Range(1, 10000));
  cost_command.add_option("--block", cost.block, "steps")->check(CLI::Range(1, 10000));
  cost_command.add_flag("--audit", cost.audit, "write the audit log");
  CLI::App& peer_command =
      *app.add_subcommand("peer", "injects faults into another training system");
  AddCommon(peer_command, peer);
  peer_command.add_option("--peer", peer.peer, "torchft, torchft-tuned or torchrun")
      ->required()
      ->transform(CLI::CheckedTransformer(kPeers));
  peer_command.add_option("--fault", peer.fault, "kill-rank or cut")
      ->transform(CLI::CheckedTransformer(kFaults));
  peer_command.add_option("--victims", peer.victims, "workers to strike, in this order")
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(0, 15));
  peer_command.add_option("--every", peer.every, "seconds of training before each fault");
  peer_command.add_option("--limit", peer.limit, "maximum seconds for a recovery");
  CLI11_PARSE(app, argc, argv);
  if (!runtime_test::Hosts::Possible()) {
    std::cout << "skipped: network namespaces require root" << std::endl;
    return kSkipped;
  }
  if (cost_command.parsed()) {
    MeasureCost(cost);
  } else {
    StrikePeer(peer);
  }
  return EXIT_SUCCESS;
}

}  // namespace ringmaster::in_place

int main(int argc, char** argv) {
  try {
    return ringmaster::in_place::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "in-place-figure: " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
