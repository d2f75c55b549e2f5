#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "worker/bench/collectives/commands.h"
#include "worker/bench/collectives/measurement.h"
#include "worker/bench/collectives/report.h"
#include "worker/bench/collectives/size_text.h"
#include "worker/bench/harness/ranks.h"

namespace ringmaster::bench {
namespace {

// The values of the flags.
struct CollectiveFlags {
  std::string begin = "32M";
  std::string end = "32M";
  std::string step = "1M";
  int64_t factor = 1;
  int iterations = 20;
  int warm_up = 5;
  int aggregated = 1;
  int check = 1;
  int average = 1;
  int blocking = 0;
  int graphs = 0;
  int registers = 0;
  int gpus = 0;
  std::string type = "float";
  std::string op = "sum";
  int root = 0;
  std::string backend = "auto";
  int ranks = 2;
  std::string json;
};

// The accepted values of a flag for types or operations: each name, and "all".
template <typename Kinds>
std::vector<std::string> NamesOf(const Kinds& kinds) {
  std::vector<std::string> names;
  for (const auto kind : kinds) names.emplace_back(trainer::NameOf(kind));
  names.emplace_back("all");
  return names;
}
template <typename Kinds>
auto Chosen(const Kinds& kinds, const std::string& name) {
  std::vector<typename Kinds::value_type> chosen;
  for (const auto kind : kinds) {
    if (name == "all" || name == trainer::NameOf(kind)) chosen.push_back(kind);
  }
  return chosen;
}

void AddFlags(CLI::App& app, Collective collective, CollectiveFlags& flags) {
  app.add_option("-b,--minbytes", flags.begin, "minimum size (8, 64K, 1M, 2G)");
  app.add_option("-e,--maxbytes", flags.end, "maximum size");
  app.add_option("-i,--stepbytes", flags.step, "increment between sizes if -f is 1");
  app.add_option("-f,--stepfactor", flags.factor, "multiplication factor between sizes")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("-n,--iters", flags.iterations, "number of timed iterations per size")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("-w,--warmup_iters", flags.warm_up, "number of warm-up iterations")
      ->check(CLI::Range(0, 1 << 24));
  app.add_option("-m,--agg_iters", flags.aggregated,
                 "operations per iteration; NCCL runs them as a group")
      ->check(CLI::Range(1, 1 << 10));
  app.add_option("-a,--average", flags.average,
                 "reported time; 0: rank 0, 1: mean over ranks, 2: minimum, 3: maximum")
      ->check(CLI::Range(0, 3));
  app.add_option("-z,--blocking", flags.blocking,
                 "0: queue all iterations and wait once, 1: wait for each iteration with a "
                 "barrier, 2: wait for each iteration")
      ->check(CLI::Range(0, 2));
  app.add_option("-G,--cudagraph", flags.graphs, "number of CUDA graphs; only 0 is supported");
  app.add_option("-R,--local_register", flags.registers,
                 "1: use memory that is registered with NCCL as the trainer's gradients are");
  app.add_option("-c,--check", flags.check, "1: check the results and count wrong elements")
      ->check(CLI::Range(0, 1));
  CLI::Option* const gpus =
      app.add_option(
             "-g,--ngpus", flags.gpus,
             "same as --ranks, because each rank has one device; 1 under an agent or mpirun")
          ->check(CLI::Range(1, 1024));
  app.add_option("-d,--datatype", flags.type, "type, or all")
      ->check(CLI::IsMember(NamesOf(trainer::kElementTypes)));
  if (Reduces(collective)) {
    app.add_option("-o,--op", flags.op, "operation, or all")
        ->check(CLI::IsMember(NamesOf(trainer::kReduceOps)));
  }
  if (HasRoot(collective)) {
    app.add_option("-r,--root", flags.root, "root rank, which sends or receives the result")
        ->check(CLI::Range(0, 1 << 20));
  }
  app.add_option("--backend", flags.backend,
                 "communication backend; auto: nccl if this process has a GPU, otherwise gloo")
      ->check(CLI::IsMember({"auto", "gloo", "shared-memory", "mpi", "nccl"}));
  app.add_option("--ranks", flags.ranks,
                 "number of ranks to start on this host; ignored under an agent or mpirun")
      ->check(CLI::Range(1, 1024))
      ->excludes(gpus);
  app.add_option("--json", flags.json, "output file; '-': standard output");
}

// Returns the number of ranks to start, if no agent or mpirun starts them.
int RanksOf(const CollectiveFlags& flags) { return flags.gpus > 0 ? flags.gpus : flags.ranks; }

Result<std::vector<int64_t>> SizesOf(const CollectiveFlags& flags) {
  const Result<int64_t> begin = ParseSize(flags.begin);
  if (!begin.ok()) return begin.error().WithContext("reading -b");
  const Result<int64_t> end = ParseSize(flags.end);
  if (!end.ok()) return end.error().WithContext("reading -e");
  const Result<int64_t> step = ParseSize(flags.step);
  if (!step.ok()) return step.error().WithContext("reading -i");
  if (*begin < 1 || *begin > *end) {
    return Error{ErrorKind::kInvalid,
                 "-b " + flags.begin + " must be at least 1 and at most -e " + flags.end};
  }
  if (flags.factor == 1 && *step < 1) {
    return Error{ErrorKind::kInvalid,
                 "-i 0 never reaches -e from -b; set -i to a size or -f to a factor"};
  }
  return Sweep(*begin, *end, *step, flags.factor);
}

Result<void> CheckNcclFlags(const CollectiveFlags& flags) {
  if (flags.graphs != 0) {
    return Error{ErrorKind::kInvalid, "-G " + std::to_string(flags.graphs) +
                                          ": the trainer does not use CUDA graphs; remove -G"};
  }
  if (flags.registers < 0 || flags.registers > 1) {
    return Error{ErrorKind::kInvalid, "-R " + std::to_string(flags.registers) +
                                          ": the trainer does not use symmetric memory; use -R 1"};
  }
  if (flags.registers == 1 && flags.backend != "nccl") {
    return Error{ErrorKind::kInvalid, "-R 1 registers memory with NCCL, but " + flags.backend +
                                          " does not support registration; use --backend=nccl"};
  }
  return {};
}

Result<Sweepings> SweepOf(Collective collective, const CollectiveFlags& flags) {
  Result<std::vector<int64_t>> sizes = SizesOf(flags);
  if (!sizes.ok()) return sizes.error();
  if (Result<void> checked = CheckNcclFlags(flags); !checked.ok()) return checked.error();
  const bool brought = UnderAgent() || flags.backend == "mpi";
  if (brought && flags.gpus > 1) {
    return Error{ErrorKind::kInvalid, "-g " + std::to_string(flags.gpus) +
                                          ": each rank has one device; set spec.slotsPerWorker, or "
                                          "-np of mpirun, for the number of ranks"};
  }
  Sweepings sweep{.collective = collective,
                  .sizes = *std::move(sizes),
                  .types = Chosen(trainer::kElementTypes, flags.type),
                  .ops = Chosen(trainer::kReduceOps, flags.op),
                  .root = flags.root,
                  .iterations = flags.iterations,
                  .warm_up = flags.warm_up,
                  .aggregated = flags.aggregated,
                  .blocking = static_cast<Blocking>(flags.blocking),
                  .average = static_cast<Average>(flags.average),
                  .check = flags.check == 1};
  return sweep;
}

// Runs the sweep on this rank. Rank 0 prints the results.
Result<int64_t> RunSweep(Backend& backend, const Sweepings& sweep, const CollectiveFlags& flags) {
  const bool speaks = backend.rank() == 0;
  const auto say = [&](const std::string& text) {
    if (!speaks) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  if (sweep.root >= backend.size()) {
    return Error{ErrorKind::kInvalid, "-r " + std::to_string(sweep.root) + ": there are " +
                                          std::to_string(backend.size()) + " ranks, from 0"};
  }
  say(Header(sweep, flags.backend, backend.size()));
  const SystemClock clock;
  const Result<std::vector<Row>> rows =
      Measure(backend, sweep, clock, [&](const Row& row) { say(LineOf(row, sweep)); });
  if (!rows.ok()) return rows.error();
  if (rows->empty()) {
    return Error{ErrorKind::kInvalid,
                 "nothing to measure: -e " + flags.end +
                     " is smaller than one element, or than 16 bytes per rank"};
  }
  const Totals totals = TotalsOf(*rows);
  say(Trailer(totals));
  if (speaks) {
    const Result<void> written =
        WriteJson(flags.json, JsonOf(*rows, sweep, flags.backend, backend.size()));
    if (!written.ok()) return written.error();
  }
  return totals.wrong;
}

int RunRank(Backend& backend, const Sweepings& sweep, const CollectiveFlags& flags) {
  const Result<int64_t> wrong = RunSweep(backend, sweep, flags);
  if (wrong.ok()) return *wrong == 0 ? 0 : 1;
  const bool invalid = wrong.error().kind == ErrorKind::kInvalid;
  if (invalid && backend.rank() != 0) return kBadInput;  // rank 0 prints the error
  return Refuse(wrong.error().message, invalid ? kBadInput : 1);
}

int RunCollective(Collective collective, CollectiveFlags flags) {
  if (flags.backend == "auto") flags.backend = AutoBackend();
  const Result<Sweepings> sweep = SweepOf(collective, flags);
  if (!sweep.ok()) return Refuse(sweep.error().message);
  if (Result<void> usable = CheckBackend(flags.backend, collective, RanksOf(flags)); !usable.ok()) {
    return Refuse(usable.error().message);
  }
  const int64_t most_bytes = flags.registers == 1 ? *std::ranges::max_element(sweep->sizes) : 0;
#if defined(RINGMASTER_BENCH_MPI)
  if (flags.backend == "mpi") {
    const Result<std::unique_ptr<Backend>> mpi = MakeMpiBackend();
    if (!mpi.ok()) return Refuse(mpi.error().message, 1);
    return RunRank(**mpi, *sweep, flags);
  }
#endif
  return RunOnRanks({.ranks = RanksOf(flags)}, [&](const trainer::World& world) {
    const Result<std::unique_ptr<Backend>> backend =
        MakeBackend(flags.backend, world, static_cast<std::size_t>(most_bytes));
    if (backend.ok()) return RunRank(**backend, *sweep, flags);
    const bool invalid = backend.error().kind == ErrorKind::kInvalid;
    return Refuse(backend.error().message, invalid ? kBadInput : 1);
  });
}

}  // namespace

Command AddCollective(CLI::App& app, Collective collective) {
  const auto flags = std::make_shared<CollectiveFlags>();
  const std::string name = collective == Collective::kAllReduce ? "allreduce" : NameOf(collective);
  CLI::App* const command = app.add_subcommand(
      name, std::string("measure and check ") + NameOf(collective) + ", as nccl-tests does");
  AddFlags(*command, collective, *flags);
  return {.app = command, .run = [collective, flags] { return RunCollective(collective, *flags); }};
}

}  // namespace ringmaster::bench
