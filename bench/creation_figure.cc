// Figure B1: how long it takes until the 1,000 worker Pods of one job exist, compared with a bare
// client that posts the same manifests with as many concurrent requests. Runs of operator and bare
// client alternate, on a cluster with simulated nodes and a scheduler.

#include <iostream>

#include <CLI/CLI.hpp>

#include "bench/creation.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

constexpr Seconds kLongPause(5);

Result<void> Measure(const CreationOptions& options, int pods, int runs) {
  auto bench = CreationBench::Start(options);
  if (!bench.ok()) return bench.error();
  CreationBench& b = **bench;
  if (auto captured = b.CapturePodRequest(); !captured.ok()) return captured;
  if (auto started = b.StartOperator(false); !started.ok()) return started;
  // Warm up: both clients keep their connections open, so that no measured run has to open them.
  const auto warm = b.OperatorCreates(2 * CreationBench::kParallel);
  if (!warm.ok()) return warm.error();
  std::cout << "warm-up (not counted): " << warm->took.count() << " s for "
            << 2 * CreationBench::kParallel << " Pods" << std::endl;
  if (auto cleared = b.Clear(CreationBench::kOperatorNs); !cleared.ok()) return cleared;
  std::vector<double> ours;
  std::vector<double> bare;
  for (int run = 0; run < runs; ++run) {
    for (const bool with_operator : {run % 2 == 0, run % 2 != 0}) {
      const auto took = with_operator ? b.OperatorCreates(pods) : b.BareClientCreates(pods);
      if (!took.ok()) return took.error();
      (with_operator ? ours : bare).push_back(took->took.count());
      std::cout << "run " << run + 1 << ": " << (with_operator ? "operator    " : "bare client ")
                << took->took.count() << " s for " << pods << " Pods; longest pause "
                << took->longest_pause.count() << " s, after " << took->pods_before_pause
                << std::endl;
      if (took->longest_pause > kLongPause) {
        std::cout << "the operator's log until then:\n" << b.OperatorLog() << std::endl;
      }
      const auto cleared =
          b.Clear(with_operator ? CreationBench::kOperatorNs : CreationBench::kBareNs);
      if (!cleared.ok()) return cleared.error();
    }
  }
  const double ratio = Median(ours) / Median(bare);
  PrintFigure({.name = "B1",
               .value = ratio,
               .unit = "operator's seconds / bare client's seconds, medians",
               .reference = Median(bare),
               .goal = "<= 1.5",
               .holds = ratio <= 1.5},
              {{"operator_seconds", Median(ours)},
               {"bare_seconds", Median(bare)},
               {"pods", pods},
               {"runs", runs}});
  return {};
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  CLI::App app("Figure B1: Pod creation of a large job");
  ringmaster::bench::CreationOptions options;
  int pods = 1000;
  int runs = 5;
  app.add_option("--kubeconfig", options.kubeconfig, "kubeconfig of a cluster administrator")
      ->required();
  app.add_option("--operator", options.program, "path of the operator binary")->required();
  app.add_option("--operator-flag", options.flags,
                 "additional operator flags, to compare settings");
  app.add_option("--pods", pods, "number of worker Pods");
  app.add_option("--runs", runs, "runs of each");
  CLI11_PARSE(app, argc, argv);
  const auto measured = ringmaster::bench::Measure(options, pods, runs);
  if (measured.ok()) return 0;
  std::cerr << measured.error().message << std::endl;
  return 1;
}
