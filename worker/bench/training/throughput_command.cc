#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "worker/bench/harness/figure.h"
#include "worker/bench/harness/ranks.h"
#include "worker/bench/training/commands.h"
#include "worker/bench/training/digits.h"
#include "worker/bench/training/image_classifier.h"
#include "worker/bench/training/rank_group.h"
#include "worker/trainer/workloads/mnist.h"

namespace ringmaster::bench {
namespace {

constexpr char kMnist[] = "mnist";
constexpr int64_t kMnistBatch = 256;
constexpr int64_t kMnistSteps = 150;
constexpr int kWays = 4;

struct ThroughputFlags {
  std::string network = kMnist;
  int ranks = 2;
  int threads = 1;           // compute threads per rank, also for PyTorch
  int64_t global_batch = 0;  // 0: the network's default; also for steps and samples
  int64_t steps = 0;
  int rounds = 5;
  int64_t samples = 0;
  int loader_threads = 0;
  std::string peer;  // the peer: a command that trains with PyTorch; empty: none
  std::string json;
};

const ImageNetwork* NetworkOf(const ThroughputFlags& flags) {
  for (const ImageNetwork& network : ImageNetworks()) {
    if (flags.network == network.name) return &network;
  }
  return nullptr;
}

// Replaces zeros with the network's default settings.
ThroughputFlags Completed(ThroughputFlags flags) {
  const ImageNetwork* const network = NetworkOf(flags);
  const auto complete = [](int64_t& value, int64_t usual) {
    if (value == 0) value = usual;
  };
  complete(flags.global_batch, network == nullptr ? kMnistBatch : network->global_batch);
  complete(flags.steps, network == nullptr ? kMnistSteps : network->steps);
  complete(flags.samples, network == nullptr ? 8192 : 8 * flags.global_batch);
  return flags;
}

// Samples per second, with a value for each round.
struct Rates {
  std::vector<double> together;
  std::vector<double> gloo;
  std::vector<double> apart;
  std::vector<double> peer;
  nlohmann::json settings;  // the peer's: {"setting": the best, "tried": {setting: samples/s}}
};

// Runs the peer's command and returns the JSON object in its last line; null if it failed.
nlohmann::json AskPeer(const ThroughputFlags& flags, const std::string& more) {
  const std::string command = flags.peer + " --network=" + flags.network +
                              " --ranks=" + std::to_string(flags.ranks) +
                              " --threads=" + std::to_string(flags.threads) +
                              " --global-batch=" + std::to_string(flags.global_batch) +
                              " --steps=" + std::to_string(flags.steps) + more;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return nullptr;
  std::array<char, 4096> line{};
  std::string last;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) last = line.data();
  auto said = nlohmann::json::parse(last, nullptr, false);
  const bool succeeded = ::pclose(pipe) == 0 && said.is_object();
  return succeeded ? std::move(said) : nullptr;
}

// Trains in each of the kWays ways once per round, in an order that rotates from round to round.
class Throughput {
 public:
  Throughput(RankGroup& group, const ThroughputFlags& flags, const Digits& digits)
      : group_(group), flags_(flags) {
    const ImageNetwork* const network = NetworkOf(flags);
    training_.workload = [&flags, &digits,
                          network](int64_t global_batch) -> std::unique_ptr<trainer::Workload> {
      if (network != nullptr) return MakeImageClassifier(*network, global_batch, flags.samples);
      return trainer::MakeMnist(
          digits.dataset(),
          {.seed = 1, .global_batch = global_batch, .loader_threads = flags.loader_threads});
    };
    training_.global_batch = flags.global_batch;
    training_.steps = flags.steps;
    training_.learning_rate = 0.001;
  }

  Result<Rates> Run() {
    Rates rates;
    if (!flags_.peer.empty()) {
      const Result<nlohmann::json> chosen = Peer(" --choose", "setting");
      if (!chosen.ok()) return chosen.error();
      rates.settings = *chosen;
      setting_ = " --setting=" + rates.settings["setting"].get<std::string>();
    }
    for (int round = 0; round < flags_.rounds; ++round) {
      for (int turn = 0; turn < kWays; ++turn) {
        const Result<void> measured = Measure((turn + round) % kWays, rates);
        if (!measured.ok()) return measured.error();
      }
      if (group_.rank() == 0) {
        std::printf(
            "round %d: together %.1f, over Gloo %.1f, apart %.1f, PyTorch DDP %.1f samples/s\n",
            round + 1, rates.together.back(), rates.gloo.back(), rates.apart.back(),
            rates.peer.back());
        std::fflush(stdout);
      }
    }
    return rates;
  }

 private:
  Result<void> Measure(int way, Rates& rates) {
    const Result<double> rate = way == 0   ? Together(trainer::HostTransport::kAuto)
                                : way == 1 ? Together(trainer::HostTransport::kGloo)
                                : way == 2 ? Apart()
                                           : PeersRate();
    if (!rate.ok()) return rate.error();
    const std::array<std::vector<double>*, kWays> into{&rates.together, &rates.gloo, &rates.apart,
                                                       &rates.peer};
    into[static_cast<std::size_t>(way)]->push_back(*rate);
    return {};
  }
  Result<double> Together(trainer::HostTransport transport) {
    Training training = training_;
    training.transport = transport;
    const auto summary = group_.Together(training, flags_.ranks);
    if (!summary.ok()) return summary.error();
    return summary->has_value() ? (*summary)->samples_per_second : 0;
  }
  Result<double> Apart() {
    Training alone = training_;
    alone.global_batch = flags_.global_batch / flags_.ranks;
    const auto summaries = group_.Apart(alone, flags_.ranks);
    if (!summaries.ok()) return summaries.error();
    return std::accumulate(summaries->begin(), summaries->end(), 0.0,
                           [](double sum, const trainer::RunSummary& summary) {
                             return sum + summary.samples_per_second;
                           });
  }
  Result<double> PeersRate() {
    if (flags_.peer.empty()) return 0.0;
    const Result<nlohmann::json> said = Peer(setting_, "samples_per_second");
    if (!said.ok()) return said.error();
    return (*said)["samples_per_second"].get<double>();
  }
  // Returns the output of the peer's command, which rank 0 runs while the other ranks wait.
  Result<nlohmann::json> Peer(const std::string& more, const char* key) {
    const Result<std::string> said =
        group_.OnRankZero([&] { return AskPeer(flags_, more).dump(); });
    if (!said.ok()) return said.error();
    auto json = nlohmann::json::parse(*said, nullptr, false);
    if (json.is_object() && json.contains(key)) return json;
    return Error{ErrorKind::kUnavailable,
                 "the PyTorch training failed; see its output above: " + flags_.peer};
  }

  RankGroup& group_;
  const ThroughputFlags& flags_;
  Training training_;
  std::string setting_;  // the peer's best setting, as a flag
};

nlohmann::ordered_json ResultOf(const Rates& rates, const ThroughputFlags& flags) {
  const double together = Median(rates.together);
  const double gloo = Median(rates.gloo);
  const double apart = Median(rates.apart);
  nlohmann::ordered_json result{{"bench", "throughput"},
                                {"network", flags.network},
                                {"samples_per_second", together},
                                {"gloo_samples_per_second", gloo},
                                {"independent_samples_per_second", apart},
                                {"of_independent", together / apart},
                                {"ranks", flags.ranks},
                                {"threads", flags.threads},
                                {"global_batch", flags.global_batch},
                                {"steps", flags.steps},
                                {"rounds", flags.rounds}};
  if (!flags.peer.empty()) {
    const double peer = Median(rates.peer);
    result["peer_samples_per_second"] = peer;
    result["over_peer"] = together / peer;
    result["gloo_over_peer"] = gloo / peer;
    result["peer_setting"] = rates.settings["setting"];
    result["peer_tried"] = rates.settings.value("tried", nlohmann::json::object());
  }
  return result;
}

int RunRank(const trainer::World& world, const ThroughputFlags& flags) {
  if (world.size < flags.ranks) {
    return Refuse("--ranks=" + std::to_string(flags.ranks) + ": the job has " +
                  std::to_string(world.size));
  }
  const Result<Digits> digits = Digits::Load("generated", flags.samples);
  if (!digits.ok()) return Refuse(digits.error().message);
  RankGroup group(world, flags.threads);
  const Result<Rates> rates = Throughput(group, flags, *digits).Run();
  if (!rates.ok()) return Refuse(rates.error().message, 1);
  if (world.rank != 0) return 0;
  const nlohmann::ordered_json result = ResultOf(*rates, flags);
  std::printf("%s: together %.1f samples/s (over Gloo %.1f), %.3f of independent ranks\n",
              flags.network.c_str(), result["samples_per_second"].get<double>(),
              result["gloo_samples_per_second"].get<double>(),
              result["of_independent"].get<double>());
  if (flags.peer.empty()) {
    std::printf("Skipped PyTorch; set --peer to a command that trains with it\n");
  } else {
    std::printf("PyTorch DDP %.1f samples/s (%s): %.3f times as fast, over Gloo %.3f\n",
                result["peer_samples_per_second"].get<double>(),
                result["peer_setting"].get<std::string>().c_str(),
                result["over_peer"].get<double>(), result["gloo_over_peer"].get<double>());
  }
  const Result<void> written = WriteJson(flags.json, result);
  return written.ok() ? 0 : Refuse(written.error().message, 1);
}

int Run(const ThroughputFlags& given) {
  const ThroughputFlags flags = Completed(given);
  if (flags.global_batch < flags.ranks) {
    return Refuse("--global-batch=" + std::to_string(flags.global_batch) +
                  " must be at least --ranks=" + std::to_string(flags.ranks) +
                  ", because each rank needs samples");
  }
  if (flags.samples < flags.global_batch) {
    return Refuse("--generated-samples=" + std::to_string(flags.samples) +
                  " must be at least --global-batch=" + std::to_string(flags.global_batch));
  }
  return RunOnRanks({.ranks = flags.ranks},
                    [&](const trainer::World& world) { return RunRank(world, flags); });
}

}  // namespace

Command AddThroughput(CLI::App& app) {
  const auto flags = std::make_shared<ThroughputFlags>();
  CLI::App& command = *app.add_subcommand(
      "throughput",
      "compare samples/s of cooperating ranks, independent ranks and PyTorch (figure B13)");
  command
      .add_option("--network", flags->network,
                  "network to train; mnist is the network of the examples; the others are "
                  "dominated by arithmetic")
      ->check(CLI::IsMember({kMnist, "resnet18", "iresnet18"}));
  command.add_option("--threads", flags->threads, "compute threads per rank, also for PyTorch")
      ->check(CLI::Range(1, 256));
  command.add_option("--ranks", flags->ranks, "number of ranks that train")
      ->check(CLI::Range(2, 64));
  command.add_option("--global-batch", flags->global_batch, "samples per step, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--steps", flags->steps, "number of steps per training")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command.add_option("--rounds", flags->rounds, "number of rounds")->check(CLI::Range(1, 10000));
  command.add_option("--generated-samples", flags->samples, "number of generated training samples")
      ->check(CLI::Range(int64_t{64}, int64_t{1} << 24));
  command
      .add_option("--loader-threads", flags->loader_threads,
                  "data loading threads per rank; 0: none")
      ->check(CLI::Range(0, 256));
  command.add_option(
      "--peer", flags->peer,
      "command that trains the same model with PyTorch (bench/peers/torchrun/throughput.sh)");
  command.add_option("--json", flags->json, "output file of the figure; '-': standard output");
  return {.app = &command, .run = [flags] { return Run(*flags); }};
}

}  // namespace ringmaster::bench
