#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include "worker/bench/collectives/commands.h"
#include "worker/bench/collectives/size_text.h"
#include "worker/bench/harness/figure.h"
#include "worker/bench/harness/ranks.h"
#include "worker/trainer/comm/gloo/gloo_communicator.h"

namespace ringmaster::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::minutes kDeadline{5};
constexpr double kGoal = 0.95;

struct CommunicatorFlags {
  int ranks = 2;
  std::string begin = "1M";
  std::string end = "32M";
  int64_t factor = 2;
  int buckets = 4;
  int rounds = 30;
  std::string json;
};

// The results for one size: bus bandwidths in GB/s, and `ours` divided by `bare`.
struct Compared {
  int64_t bytes = 0;
  double bare = 0;
  double ours = 0;
  double ratio = 0;
};

constexpr std::chrono::minutes kBareTimeout{5};

// Gives a world's store the interface of Gloo's stores.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(std::shared_ptr<trainer::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const Result<void> set = store_->Set(key, std::string(data.begin(), data.end()));
    if (!set.ok()) throw std::runtime_error(set.error().message);
  }
  std::vector<char> get(const std::string& key) override {
    const auto found = store_->Get({key}, std::chrono::steady_clock::now() + kBareTimeout);
    if (!found.ok()) throw std::runtime_error(found.error().message);
    return {found->front().begin(), found->front().end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, kBareTimeout); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    const auto found = store_->Get(keys, std::chrono::steady_clock::now() + timeout);
    if (!found.ok()) throw std::runtime_error(found.error().message);
  }

 private:
  const std::shared_ptr<trainer::Store> store_;
};

// The baseline for the trainer's communicator. Uses Gloo as Gloo's examples do, with a context and
// one collective after the other on the caller's thread. May throw Gloo's exceptions.
class BareGloo {
 public:
  // Connects the ranks of `world` through its store.
  explicit BareGloo(const trainer::World& world) {
    const std::string address = world.address.empty() ? "127.0.0.1" : world.address;
    auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
    auto context = std::make_shared<gloo::rendezvous::Context>(world.rank, world.size);
    context->setTimeout(kBareTimeout);
    GlooStore store(world.store);
    context->connectFullMesh(store, device);
    context_ = std::move(context);
  }

  // Replaces the values with their sums over all ranks.
  void AllReduce(std::span<float> values) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    options.setTag(next_tag_++);
    options.setTimeout(kBareTimeout);
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  uint32_t next_tag_ = 0;
};

// Reduces the same buffers with BareGloo and with the trainer's communicator in each round.
class Comparison {
 public:
  Comparison(const trainer::World& world, const CommunicatorFlags& flags)
      : size_(world.size),
        flags_(flags),
        bare_(Scoped(world, "bare/")),
        ours_(Scoped(world, "ours/"), steady_clock::now() + kDeadline, abandoned_connects_) {}

  Compared Of(int64_t bytes) {
    buckets_.assign(static_cast<std::size_t>(flags_.buckets),
                    std::vector<float>(static_cast<std::size_t>(bytes) / sizeof(float)));
    std::vector<double> bare;
    std::vector<double> ours;
    std::vector<double> ratios;
    for (int round = 0; round <= flags_.rounds; ++round) {
      const bool swapped = round % 2 == 1;  // alternates, so that the order favours neither side
      double second = swapped ? SecondsOf(&Comparison::RunOurs) : 0;
      const double first = SecondsOf(&Comparison::RunBare);
      if (!swapped) second = SecondsOf(&Comparison::RunOurs);
      if (round == 0) continue;  // warm-up
      bare.push_back(first);
      ours.push_back(second);
      ratios.push_back(first / second);
    }
    const double carried =
        static_cast<double>(bytes) * flags_.buckets / 1e9 * 2 * (size_ - 1) / size_;
    return {.bytes = bytes,
            .bare = carried / Median(bare),
            .ours = carried / Median(ours),
            .ratio = Median(ratios)};
  }

 private:
  static trainer::World Scoped(trainer::World world, const std::string& prefix) {
    world.store = std::make_shared<ScopedStore>(world.store, prefix);
    return world;
  }

  double SecondsOf(void (Comparison::*run)()) {
    Must(ours_.Barrier(steady_clock::now() + kDeadline)->Wait());
    const auto begin = steady_clock::now();
    (this->*run)();
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
  }
  void RunBare() {
    for (std::vector<float>& bucket : buckets_) bare_.AllReduce(bucket);
  }
  void RunOurs() {
    std::vector<trainer::WorkHandle> works;
    for (std::vector<float>& bucket : buckets_) {
      works.push_back(ours_.AllReduce(bucket, steady_clock::now() + kDeadline));
    }
    for (const trainer::WorkHandle& work : works) Must(work->Wait());
  }
  static void Must(const Result<void>& done) {
    if (!done.ok()) throw std::runtime_error(done.error().message);
  }

  const int size_;
  const CommunicatorFlags& flags_;
  std::vector<std::vector<float>> buckets_;
  trainer::AbandonedConnects abandoned_connects_;
  BareGloo bare_;
  trainer::GlooCommunicator ours_;  // destroyed before the buckets that it uses
};

nlohmann::ordered_json FigureOf(const std::vector<Compared>& sizes, const CommunicatorFlags& flags,
                                int ranks) {
  const auto worst = std::ranges::min_element(
      sizes, [](const Compared& a, const Compared& b) { return a.ratio < b.ratio; });
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Compared& size : sizes) {
    rows.push_back({{"size", size.bytes},
                    {"bare_busbw_gb_s", size.bare},
                    {"busbw_gb_s", size.ours},
                    {"ratio", size.ratio}});
  }
  return JsonOf(
      {.name = "B12",
       .value = worst->ratio,
       .unit = "bus bandwidth of the trainer's allreduce relative to a bare Gloo loop, at the "
               "worst size",
       .reference = worst->bare,
       .reference_is = "GB/s of the bare loop at that size in the same run",
       .goal = ">= 0.95",
       .holds = worst->ratio >= kGoal},
      {{"ranks", ranks}, {"buckets", flags.buckets}, {"rounds", flags.rounds}, {"sizes", rows}});
}

int RunRank(const trainer::World& world, const CommunicatorFlags& flags,
            const std::vector<int64_t>& sizes) {
  if (world.size < 2) return Refuse("a single rank has nothing to reduce; use at least two");
  Comparison comparison(world, flags);
  std::vector<Compared> compared;
  for (const int64_t bytes : sizes) {
    compared.push_back(comparison.Of(bytes));
    const Compared& row = compared.back();
    if (world.rank != 0) continue;
    std::printf("%12lld B × %d: bare %6.3f GB/s, ours %6.3f GB/s, ratio %.3f\n",
                static_cast<long long>(row.bytes), flags.buckets, row.bare, row.ours, row.ratio);
    std::fflush(stdout);
  }
  if (world.rank != 0) return 0;
  const Result<void> written = WriteJson(flags.json, FigureOf(compared, flags, world.size));
  return written.ok() ? 0 : Refuse(written.error().message, 1);
}

int Run(const CommunicatorFlags& flags) {
  const Result<int64_t> begin = ParseSize(flags.begin);
  const Result<int64_t> end = ParseSize(flags.end);
  if (!begin.ok()) return Refuse(begin.error().message);
  if (!end.ok()) return Refuse(end.error().message);
  if (*begin < 4 || *begin > *end) {
    return Refuse("-b " + flags.begin + " must be at least 4 and at most -e " + flags.end);
  }
  const std::vector<int64_t> sizes = Sweep(*begin, *end, 0, flags.factor);
  return RunOnRanks({.ranks = flags.ranks},
                    [&](const trainer::World& world) { return RunRank(world, flags, sizes); });
}

}  // namespace

Command AddCommunicator(CLI::App& app) {
  const auto flags = std::make_shared<CommunicatorFlags>();
  CLI::App& command = *app.add_subcommand(
      "communicator", "compare the trainer's allreduce with a bare Gloo loop (figure B12)");
  command.add_option("--ranks", flags->ranks, "number of ranks to start on this host")
      ->check(CLI::Range(2, 1024));
  command.add_option("-b,--minbytes", flags->begin, "minimum bucket size");
  command.add_option("-e,--maxbytes", flags->end, "maximum bucket size");
  command.add_option("-f,--stepfactor", flags->factor, "multiplication factor between sizes")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 30));
  command.add_option("--buckets", flags->buckets, "number of buckets that are reduced in a row")
      ->check(CLI::Range(1, 1024));
  command.add_option("--rounds", flags->rounds, "number of rounds, alternating between the two")
      ->check(CLI::Range(1, 100000));
  command.add_option("--json", flags->json, "output file of the figure; '-': standard output");
  return {.app = &command, .run = [flags] { return Run(*flags); }};
}

}  // namespace ringmaster::bench
