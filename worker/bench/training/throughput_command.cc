#include "worker/bench/training/throughput_command.h"

#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "worker/bench/median.h"
#include "worker/bench/ranks.h"
#include "worker/bench/training/digits.h"
#include "worker/bench/training/rank_group.h"
#include "worker/trainer/workloads/mnist.h"

namespace ringmaster::bench {
namespace {

constexpr double kGoalOverDdp = 1.25;
constexpr double kGoalOfApart = 0.95;

struct ThroughputFlags {
  int ranks = 2;
  int64_t global_batch = 256;
  int64_t steps = 150;
  int rounds = 5;
  int64_t samples = 8192;
  int loader_threads = 1;
  std::string transport = trainer::NameOf(trainer::HostTransport::kAuto);
  std::string ddp;  // a command; empty: PyTorch is not measured
  std::string json;
};

// Samples a second, a value a round.
struct Rates {
  std::vector<double> together;
  std::vector<double> apart;
  std::vector<double> ddp;
};

// What the command prints last is {"samples_per_second": …}; 0 where it is not.
double RunDdp(const ThroughputFlags& flags) {
  const std::string command = flags.ddp + " --ranks=" + std::to_string(flags.ranks) +
                              " --global-batch=" + std::to_string(flags.global_batch) +
                              " --steps=" + std::to_string(flags.steps);
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  std::array<char, 4096> line{};
  std::string last;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) last = line.data();
  const bool succeeded = ::pclose(pipe) == 0;
  const auto json = nlohmann::json::parse(last, nullptr, false);
  if (!succeeded || !json.is_object() || !json.contains("samples_per_second")) return 0;
  return json["samples_per_second"].get<double>();
}

// The three, in an order that turns from round to round.
class Throughput {
 public:
  Throughput(RankGroup& group, const ThroughputFlags& flags, const Digits& digits)
      : group_(group), flags_(flags) {
    training_.workload = [&](int64_t global_batch) {
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
    for (int round = 0; round < flags_.rounds; ++round) {
      for (int turn = 0; turn < 3; ++turn) {
        const int which = (turn + round) % 3;
        const Result<double> rate = which == 0 ? Together() : which == 1 ? Apart() : Ddp();
        if (!rate.ok()) return rate.error();
        (which == 0 ? rates.together : which == 1 ? rates.apart : rates.ddp).push_back(*rate);
      }
      if (group_.rank() == 0) {
        std::printf("round %d: together %.0f, apart %.0f, PyTorch DDP %.0f samples/s\n", round + 1,
                    rates.together.back(), rates.apart.back(), rates.ddp.back());
        std::fflush(stdout);
      }
    }
    return rates;
  }

 private:
  Result<double> Together() {
    const auto summary = group_.Together(training_, flags_.ranks);
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
  Result<double> Ddp() {
    if (flags_.ddp.empty()) return 0.0;
    const Result<std::string> rate =
        group_.OnRankZero([this] { return std::to_string(RunDdp(flags_)); });
    if (!rate.ok()) return rate.error();
    const double samples = std::strtod(rate->c_str(), nullptr);
    if (samples > 0) return samples;
    return Error{ErrorKind::kUnavailable,
                 "PyTorch's training did not end well; its own message is above: " + flags_.ddp};
  }

  RankGroup& group_;
  const ThroughputFlags& flags_;
  Training training_;
};

nlohmann::ordered_json FigureOf(const Rates& rates, const ThroughputFlags& flags) {
  const double together = Median(rates.together);
  const double apart = Median(rates.apart);
  const double ddp = Median(rates.ddp);
  const bool compared = ddp > 0;
  const double over_ddp = compared ? together / ddp : 0;
  nlohmann::ordered_json figure{
      {"figure", "B13"},
      {"value", nullptr},
      {"unit", "samples/s over those of PyTorch DDP, medians of alternating rounds"},
      {"reference", nullptr},
      {"reference_is", "samples/s of PyTorch DDP over Gloo, the same run"},
      {"goal", ">= 1.25; and >= 0.95 of as many ranks that do not communicate"},
      {"holds", compared && over_ddp >= kGoalOverDdp && together / apart >= kGoalOfApart},
      {"of_independent", together / apart},
      {"samples_per_second", together},
      {"independent_samples_per_second", apart},
      {"ranks", flags.ranks},
      {"global_batch", flags.global_batch},
      {"steps", flags.steps},
      {"rounds", flags.rounds}};
  if (compared) {
    figure["value"] = over_ddp;
    figure["reference"] = ddp;
  }
  return figure;
}

int RunRank(const trainer::World& world, const ThroughputFlags& flags) {
  if (world.size < flags.ranks) {
    return Refuse("--ranks=" + std::to_string(flags.ranks) + ": the job has " +
                  std::to_string(world.size));
  }
  const Result<Digits> digits = Digits::Load("generated", flags.samples);
  if (!digits.ok()) return Refuse(digits.error().message);
  RankGroup group(world, *trainer::HostTransportOf(flags.transport));
  const Result<Rates> rates = Throughput(group, flags, *digits).Run();
  if (!rates.ok()) return Refuse(rates.error().message, 1);
  if (world.rank != 0) return 0;
  const nlohmann::ordered_json figure = FigureOf(*rates, flags);
  std::printf("together %.0f samples/s, %.3f of independent ranks\n",
              figure["samples_per_second"].get<double>(), figure["of_independent"].get<double>());
  if (flags.ddp.empty()) {
    std::printf("PyTorch was not measured: --ddp names the command that trains with it\n");
  } else {
    std::printf("PyTorch DDP %.0f samples/s: %.3f times as fast\n",
                figure["reference"].get<double>(), figure["value"].get<double>());
  }
  const Result<void> written = WriteJson(flags.json, figure);
  return written.ok() ? 0 : Refuse(written.error().message, 1);
}

int Run(const ThroughputFlags& flags) {
  if (flags.global_batch < flags.ranks) {
    return Refuse("--global-batch=" + std::to_string(flags.global_batch) +
                  " leaves ranks without samples: at least one for each of --ranks=" +
                  std::to_string(flags.ranks));
  }
  return RunOnRanks({.ranks = flags.ranks},
                    [&](const trainer::World& world) { return RunRank(world, flags); });
}

}  // namespace

Command AddThroughput(CLI::App& app) {
  const auto flags = std::make_shared<ThroughputFlags>();
  CLI::App& command = *app.add_subcommand(
      "throughput", "samples/s of ranks together, each for itself, and of PyTorch (figure B13)");
  command.add_option("--ranks", flags->ranks, "that train")->check(CLI::Range(2, 64));
  command.add_option("--global-batch", flags->global_batch, "samples of a step, over all ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--steps", flags->steps, "of a training")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  command.add_option("--rounds", flags->rounds, "of all, in turn")->check(CLI::Range(1, 10000));
  command.add_option("--generated-samples", flags->samples, "digits to train on")
      ->check(CLI::Range(int64_t{64}, int64_t{1} << 24));
  command.add_option("--loader-threads", flags->loader_threads, "of a rank; 0: none")
      ->check(CLI::Range(0, 256));
  command.add_option("--transport", flags->transport, "what the ranks reduce over")
      ->check(CLI::IsMember({"auto", "gloo", "shared-memory"}));
  command.add_option("--ddp", flags->ddp,
                     "a command that trains the same with PyTorch (bench/ddp/throughput.sh)");
  command.add_option("--json", flags->json, "a file for the figure; '-': standard output");
  return {.app = &command, .run = [flags] { return Run(*flags); }};
}

}  // namespace ringmaster::bench
