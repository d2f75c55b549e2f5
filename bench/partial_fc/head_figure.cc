// Measures the memory and the time per step of a partial-fc model's head on one of N ranks: with
// sampled classes, with all classes, and as a dense layer. Each variant runs in its own process;
// random embeddings replace a backbone. The last line is one JSON object.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/partial_fc/dense_head.h"
#include "worker/bench/harness/figure.h"
#include "worker/bench/harness/handover.h"
#include "worker/trainer/data/data_order.h"
#include "worker/trainer/numeric/philox.h"
#include "worker/trainer/partial_fc/host_shard_step.h"

namespace ringmaster::partial_fc_bench {
namespace {

using namespace trainer;
using namespace trainer::partial_fc;
using std::chrono::steady_clock;

struct Options {
  int64_t classes = 1'000'000;
  int64_t embedding = 512;
  double sample_rate = 0.1;
  int64_t global_batch = 64;
  int ranks = 1;  // number of ranks; this process acts as the first one
  int64_t steps = 5;
  int threads = 1;
};

struct Measured {
  double step_millis = 0;  // median time of a step
  double megabytes = 0;    // peak resident memory
};

HeadOptions HeadOf(const Options& options, double rate) {
  HeadOptions head;
  head.classes = options.classes;
  head.dimension = options.embedding;
  head.sampling = {.seed = 1, .rate = rate};
  head.learning_rate = [](int64_t) { return 0.1; };
  return head;
}

struct Batch {
  std::vector<int64_t> labels;
  std::vector<float> embeddings;
};

Batch BatchOf(const Options& options, int64_t step) {
  Batch batch;
  const auto width = static_cast<std::size_t>(options.embedding);
  std::vector<float> vector(width);
  for (int64_t i = 0; i < options.global_batch; ++i) {
    const auto draw = [&](std::size_t k) {
      return RandomBlock(1, RandomPurpose::kIdentities, static_cast<uint64_t>(step),
                         static_cast<uint32_t>(i), static_cast<uint32_t>(k))
          .words[0];
    };
    batch.labels.push_back(static_cast<int64_t>(draw(width)) % options.classes);
    for (std::size_t k = 0; k < width; ++k) vector[k] = 2 * UnitFloat(draw(k)) - 1;
    batch.embeddings.resize(batch.embeddings.size() + width);
    ToUnit(vector.data(), options.embedding, &batch.embeddings[batch.embeddings.size() - width]);
  }
  return batch;
}

double MedianMillis(const Options& options,
                    const std::function<void(int64_t step, const Batch& batch)>& run) {
  std::vector<double> millis;
  for (int64_t step = 0; step <= options.steps; ++step) {
    const Batch batch = BatchOf(options, step);
    const auto begin = steady_clock::now();
    run(step, batch);
    const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
    if (step > 0) millis.push_back(took.count());  // the first step allocates memory
  }
  return bench::Median(std::move(millis));
}

double MeasureSparse(const Options& options, double rate) {
  const HeadOptions head = HeadOf(options, rate);
  const Share share = ShareOf(0, options.ranks, options.classes);
  Rows rows = Rows::Initial({share.begin, share.end}, options.embedding, 1);
  HostShardStep work;
  return MedianMillis(options, [&](int64_t step, const Batch& batch) {
    std::vector<float> maximum(batch.labels.size(), kNoMaximum);
    std::vector<float> sum(batch.labels.size());
    std::vector<float> target(batch.labels.size());
    std::vector<float> gradients(batch.embeddings.size());
    work.Begin(head, step, batch.labels, batch.embeddings, rows.range());
    work.ComputeLogits(rows, {.maximum = maximum, .sum = sum}, target);
    work.ComputeCoefficients(maximum, sum);
    work.AddEmbeddingGradients(rows, gradients);
    work.Update(rows, RatesOf(head, step));
  });
}

double MeasureDense(const Options& options) {
  const Share share = ShareOf(0, options.ranks, options.classes);
  DenseHead head(HeadOf(options, 1), {share.begin, share.end}, options.global_batch);
  std::vector<float> gradients(static_cast<std::size_t>(options.global_batch * options.embedding));
  return MedianMillis(options, [&](int64_t step, const Batch& batch) {
    head.Step(step, batch.labels, batch.embeddings, gradients);
  });
}

// Runs one measurement in its own process, so that its memory is measured separately.
Measured Apart(const Options& options, const std::function<double()>& measure) {
  const auto said = bench::InAProcess([&] {
    at::set_num_threads(options.threads);
    return std::to_string(measure());
  });
  if (!said) {
    std::fprintf(stderr,
                 "figure-partial-fc: a measurement ended early; check for lack of memory\n");
    std::exit(1);
  }
  return {.step_millis = std::stod(said->text),
          .megabytes = static_cast<double>(said->peak_kib) / 1024};
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Memory and time of the head of a partial-fc model on one rank.");
  app.add_option("--classes", options.classes)->check(CLI::Range(2, 1 << 30));
  app.add_option("--embedding", options.embedding)->check(CLI::Range(1, 1 << 16));
  app.add_option("--sample-rate", options.sample_rate)->check(CLI::Range(1e-6, 1.0));
  app.add_option("--global-batch", options.global_batch)->check(CLI::Range(1, 1 << 20));
  app.add_option("--ranks", options.ranks, "number of ranks that the classes are spread over");
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000));
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);

  nlohmann::json result{{"figure", "partial-fc"},         {"classes", options.classes},
                        {"embedding", options.embedding}, {"sample_rate", options.sample_rate},
                        {"ranks", options.ranks},         {"global_batch", options.global_batch},
                        {"threads", options.threads}};
  std::printf("%-28s %14s %14s\n", "head of one rank", "ms per step", "MB at most");
  const auto row = [&](const char* name, const char* key, const std::function<double()>& measure) {
    const Measured measured = Apart(options, measure);
    std::printf("%-28s %14.1f %14.0f\n", name, measured.step_millis, measured.megabytes);
    std::fflush(stdout);
    result[key] = {{"step_ms", measured.step_millis}, {"megabytes", measured.megabytes}};
  };
  row("sampled, sparse update", "sampled",
      [&] { return MeasureSparse(options, options.sample_rate); });
  row("every class, sparse update", "every_class", [&] { return MeasureSparse(options, 1); });
  row("every class, dense gradient", "dense", [&] { return MeasureDense(options); });
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace ringmaster::partial_fc_bench

int main(int argc, char** argv) { return ringmaster::partial_fc_bench::Main(argc, argv); }
