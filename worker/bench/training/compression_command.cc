#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/bench/harness/handover.h"
#include "worker/bench/harness/ranks.h"
#include "worker/bench/training/commands.h"
#include "worker/bench/training/digits.h"
#include "worker/bench/training/limited_link.h"
#include "worker/bench/training/perceptron.h"
#include "worker/bench/training/rank_group.h"
#include "worker/trainer/workloads/mnist.h"

namespace ringmaster::bench {
namespace {

using nlohmann::ordered_json;
using trainer::Compression;
using trainer::RunSummary;

struct CompressionFlags {
  std::string data = "generated";
  int64_t samples = 8192;
  int64_t global_batch = 64;
  int64_t epochs = 5;
  double learning_rate = 0.03;
  std::vector<int> ranks{2, 4};
  std::string link;
  int link_ranks = 2;
  int64_t link_batch = 32;
  int64_t link_steps = 20;
  std::string json;
};

struct Method {
  const char* name;
  Compression compression;
};
constexpr std::array<Method, 3> kMethods{{{"allreduce", Compression::kNone},
                                          {"8 bit", Compression::kFloat8E4M3},
                                          {"16 bit", Compression::kFloat16}}};

// Returns an accuracy's standard error due to the held-out samples, without that of the seed.
double StandardError(const RunSummary& summary) {
  if (summary.held_out_samples == 0) return 0;
  const double accuracy = summary.accuracy;
  return std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(summary.held_out_samples));
}

ordered_json RowOf(const char* method, Compression compression, int ranks,
                   const RunSummary& summary) {
  return {{"method", method},
          {"compression", NameOf(compression)},
          {"ranks", ranks},
          {"seconds", summary.seconds},
          {"step_ms_median", summary.step_ms_median},
          {"samples_per_second", summary.samples_per_second},
          {"accuracy", summary.accuracy},
          {"accuracy_standard_error", StandardError(summary)}};
}

void PrintHeader(const char* title) {
  std::printf("%s\n%-10s %-9s %5s %18s %14s %14s\n", title, "method", "format", "ranks",
              "training time (s)", "step (ms)", "accuracy (%)");
  std::fflush(stdout);
}

void Print(const ordered_json& row) {
  std::printf("%-10s %-9s %5d %18.2f %14.2f %6.2f ± %.2f\n",
              row["method"].get_ref<const std::string&>().c_str(),
              row["compression"].get_ref<const std::string&>().c_str(), row["ranks"].get<int>(),
              row["seconds"].get<double>(), row["step_ms_median"].get<double>(),
              100 * row["accuracy"].get<double>(),
              100 * row["accuracy_standard_error"].get<double>());
  std::fflush(stdout);
}

// Trains once for each row. Rank 0 prints the row and adds it to the result.
class Table {
 public:
  explicit Table(RankGroup& group) : group_(group) {}

  Result<void> Add(const char* method, Training training, Compression compression, int ranks) {
    training.compression = compression;
    const Result<std::optional<RunSummary>> summary = group_.Together(training, ranks);
    if (!summary.ok()) {
      return summary.error().WithContext(std::string("training with ") + method + " on " +
                                         std::to_string(ranks) + " ranks");
    }
    if (group_.rank() != 0) return {};
    rows_.push_back(RowOf(method, compression, ranks, **summary));
    Print(rows_.back());
    return {};
  }
  const ordered_json& rows() const { return rows_; }

  // Returns the row of a format on this number of ranks; null if there is none.
  const ordered_json* Find(Compression compression, int ranks) const {
    for (const ordered_json& row : rows_) {
      if (row["compression"] == NameOf(compression) && row["ranks"] == ranks) return &row;
    }
    return nullptr;
  }

 private:
  RankGroup& group_;
  ordered_json rows_ = ordered_json::array();
};

Result<ordered_json> LabTable(RankGroup& group, const CompressionFlags& flags) {
  const Result<Digits> digits = Digits::Load(flags.data, flags.samples);
  if (!digits.ok()) return digits.error();
  const auto make = [&digits = *digits](int64_t global_batch) {
    return trainer::MakeMnist(digits.dataset(), {.seed = 1, .global_batch = global_batch});
  };
  const Training training{
      .workload = make,
      .global_batch = flags.global_batch,
      .steps =
          trainer::DataOrder(1, digits->training_size(), flags.global_batch).StepsFor(flags.epochs),
      .learning_rate = flags.learning_rate};
  if (group.rank() == 0) PrintHeader("MNIST's network, on processes of this machine:");
  Table table(group);
  if (Result<void> row = table.Add("serial", training, Compression::kNone, 1); !row.ok()) {
    return row.error();
  }
  for (const Method& method : kMethods) {
    for (const int ranks : flags.ranks) {
      if (ranks > group.size()) continue;
      Result<void> row = table.Add(method.name, training, method.compression, ranks);
      if (!row.ok()) return row.error();
    }
  }
  return ordered_json{{"data", flags.data},
                      {"steps", training.steps},
                      {"global_batch", flags.global_batch},
                      {"rows", table.rows()}};
}

Result<ordered_json> LinkTable(RankGroup& group, const CompressionFlags& flags) {
  const Result<Digits> digits = Digits::Load("generated", 2048);
  if (!digits.ok()) return digits.error();
  Training training{
      .workload = [&digits = *digits](
                      int64_t global_batch) { return MakePerceptron(digits, global_batch); },
      .global_batch = flags.link_batch,
      .steps = flags.link_steps,
      .learning_rate = 0.002};
  int64_t parameters = 0;
  for (const at::Tensor& parameter : training.workload(1)->parameters()) {
    parameters += parameter.numel();
  }
  const std::string title =
      std::to_string(parameters) + " parameters, over links of " + flags.link + ":";
  if (group.rank() == 0) PrintHeader(title.c_str());
  Table table(group);
  for (const Method& method : kMethods) {
    Result<void> row = table.Add(method.name, training, method.compression, group.size());
    if (!row.ok()) return row.error();
  }
  if (group.rank() != 0) return ordered_json();
  const double plain =
      (*table.Find(Compression::kNone, group.size()))["step_ms_median"].get<double>();
  const double narrow =
      (*table.Find(Compression::kFloat8E4M3, group.size()))["step_ms_median"].get<double>();
  return ordered_json{{"rate", flags.link},
                      {"parameters", parameters},
                      {"rows", table.rows()},
                      {"fp8_speedup", plain / narrow},
                      {"holds", plain > narrow}};
}

using Part = Result<ordered_json> (*)(RankGroup& group, const CompressionFlags& flags);

// Runs a part of the bench on ranks. Sets `code`. Returns the result; a discarded value on failure.
ordered_json RunPart(Part part, const RankOptions& ranks, const CompressionFlags& flags,
                     int& code) {
  const Handover handover;
  code = RunOnRanks(ranks, [&](const trainer::World& world) {
    RankGroup group(world);
    const Result<ordered_json> result = part(group, flags);
    if (!result.ok()) {
      const bool invalid = result.error().kind == ErrorKind::kInvalid;
      if (invalid && world.rank != 0) return kBadInput;  // rank 0 prints the error
      return Refuse(result.error().message, invalid ? kBadInput : 1);
    }
    if (world.rank == 0) handover.Write(result->dump());
    return 0;
  });
  return ordered_json::parse(handover.Read(), nullptr, false);
}

int Run(const CompressionFlags& flags) {
  if (!flags.link.empty() && UnderAgent()) {
    return Refuse("--link creates its own network namespaces; remove it in a TrainingJob");
  }
  int code = 0;
  const RankOptions ranks{.ranks = *std::ranges::max_element(flags.ranks)};
  ordered_json result{{"bench", "compression"}};
  // Create the link first, so that problems with it are reported before the training.
  std::unique_ptr<LimitedLink> link;
  if (!flags.link.empty()) {
    Result<std::unique_ptr<LimitedLink>> made = LimitedLink::Make(flags.link_ranks, flags.link);
    if (!made.ok()) return Refuse(made.error().message);
    link = *std::move(made);
  }
  result["table"] = RunPart(&LabTable, ranks, flags, code);
  if (code != 0) return code;
  if (link) {
    result["link"] = RunPart(&LinkTable,
                             {.ranks = flags.link_ranks,
                              .namespaces = link->namespaces(),
                              .addresses = link->addresses()},
                             flags, code);
    if (code != 0) return code;
  }
  if (!result["table"].is_object()) return 0;  // another rank writes the result
  std::printf(
      "Accuracies are from a single seed, with standard errors; differences within them are not "
      "significant\n");
  if (link) {
    std::printf("fp8 makes a step %.2f times as fast over the link (goal: above 1)\n",
                result["link"]["fp8_speedup"].get<double>());
  }
  const Result<void> written = WriteJson(flags.json, result);
  return written.ok() ? 0 : Refuse(written.error().message, 1);
}

}  // namespace

Command AddCompression(CLI::App& app) {
  const auto flags = std::make_shared<CompressionFlags>();
  CLI::App& command =
      *app.add_subcommand("compression", "measure training time and accuracy by gradient format");
  command.add_option("--data", flags->data, "folder with the four MNIST files, or 'generated'");
  command
      .add_option("--generated-samples", flags->samples,
                  "number of training samples of --data=generated")
      ->check(CLI::Range(int64_t{64}, int64_t{1} << 24));
  command.add_option("--global-batch", flags->global_batch, "samples per step")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--epochs", flags->epochs, "passes over the training samples")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--learning-rate", flags->learning_rate, "learning rate")
      ->check(CLI::Range(0.0, 1e6));
  command.add_option("--ranks", flags->ranks, "world sizes to train with")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  command.add_option(
      "--link", flags->link,
      "also measure over links of this rate (1Gbit), with a model of 10 million parameters");
  command.add_option("--link-ranks", flags->link_ranks, "number of hosts connected by such links")
      ->check(CLI::Range(2, 64));
  command.add_option("--link-steps", flags->link_steps, "number of steps over such links")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command.add_option("--json", flags->json, "output file; '-': standard output");
  return {.app = &command, .run = [flags] { return Run(*flags); }};
}

}  // namespace ringmaster::bench
