#include "worker/trainer/partial_fc/centre_table.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "common/base/log.h"
#include "worker/trainer/partial_fc/host_head_device.h"
#include "worker/trainer/partial_fc/replica_peers.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr int64_t kShard = 0;  // block number of this rank's shard; other blocks follow
// How many attempts at a step have their inputs kept. An attempt fails if its world ends.
constexpr std::size_t kMostPending = 4;

// Returns each rank's shard, by rank. Ranks that leave get no rows.
std::vector<ClassRange> ShardsAmong(const std::vector<uint64_t>& leaving, int64_t classes) {
  const auto staying = static_cast<int>(std::ranges::count(leaving, 0U));
  std::vector<ClassRange> shards;
  int next = 0;
  for (const uint64_t leaves : leaving) {
    shards.push_back(leaves != 0 ? ClassRange{} : ShardOf(next++, staying, classes));
  }
  return shards;
}

bool StaysInPlace(const RowPlan& plan, int size, int64_t classes) {
  return plan.sources.size() == static_cast<std::size_t>(size) &&
         std::ranges::all_of(plan.sources, [&](const RowSource& source) {
           return source.block == kShard && source.range == ShardOf(source.rank, size, classes);
         });
}

}  // namespace

CentreTable::CentreTable(TableOptions options)
    : options_(std::move(options)),
      device_(options_.device == nullptr ? MakeHostHeadDevice() : options_.device),
      copies_(options_.replica_every) {}

// --- worlds

Result<ShardedOutcome> CentreTable::Sync(const ShardedWorld& world) {
  const int64_t classes = options_.head.classes;
  if (classes < world.world.size) {
    return Error{ErrorKind::kInvalid,
                 "a world of " + std::to_string(world.world.size) + " ranks cannot share " +
                     std::to_string(classes) +
                     " classes, because each rank holds at least one; use fewer ranks "
                     "(spec.worker.maxReplicas) or more --classes"};
  }
  step_ = device_->MakeStep();  // frees the old step's memory for rows that move
  const std::vector<uint64_t> all_stay(static_cast<std::size_t>(world.world.size), 0);
  exchange_ = std::make_unique<RowExchange>(
      world.communicator, ShardsAmong(all_stay, classes), options_.head.dimension,
      RowExchange::Options{.timeout = world.timeout, .moving = world.moving}, *device_);
  const bool trained = world.adopted.origin == StateOrigin::kTraining;
  return trained ? Collect(world) : Begin(world);
}

// Starts a world in which no rank has trained: rows have initial values or come from a checkpoint.
Result<ShardedOutcome> CentreTable::Begin(const ShardedWorld& world) {
  const ClassRange shard = ShardOf(world.world.rank, world.world.size, options_.head.classes);
  const bool from_nothing = world.adopted.version == StateVersion{};
  const bool held = has_rows_ && held_.version == world.adopted.version && rows_.range() == shard;
  std::function<Result<void>()> load = [] { return Result<void>(); };
  if (!held) {
    Forget();
    if (from_nothing) {
      rows_ = Rows::Initial(shard, options_.head.dimension, options_.head.sampling.seed, *device_);
    } else {
      if (!world.load) return ShardedOutcome{.lost = "all rows"};
      rows_ = Rows(shard, options_.head.dimension);
      load = [&] {
        Result<void> loaded =
            world.load(world.adopted.version, shard.begin, shard.end, rows_.values());
        if (!loaded.ok()) return loaded;
        if (!device_->on_host()) rows_ = rows_.On(*device_);
        // The next world uses these rows if this one ends because another rank reads slowly.
        held_ = world.adopted;
        has_rows_ = true;
        return loaded;
      };
    }
  }
  if (!from_nothing) {
    const Result<std::string> damaged = Load(load, world.pause);
    if (!damaged.ok()) return damaged.error();
    if (!damaged->empty()) return ShardedOutcome{.lost = *damaged};
  }
  once_ = from_nothing ? 0 : options_.head.classes;
  keep_.clear();
  return Enter(world);
}

// Loads this rank's rows of a checkpoint. Returns a list of all ranks' damaged rows, as text; empty
// if none are damaged. If one rank cannot read its rows now, all ranks wait.
Result<std::string> CentreTable::Load(const std::function<Result<void>()>& load,
                                      const std::function<void(int attempt)>& pause) {
  constexpr uint64_t kLoaded = 0;
  constexpr uint64_t kDamagedRows = 1;
  constexpr uint64_t kNotNow = 2;
  uint64_t mine = kNotNow;
  Result<std::vector<uint64_t>> failed = Error{};
  for (int attempt = 0;; ++attempt) {
    if (mine == kNotNow) {
      const Result<void> loaded = load();
      const bool now = loaded.ok() || loaded.error().kind != ErrorKind::kUnavailable;
      mine = loaded.ok() ? kLoaded : now ? kDamagedRows : kNotNow;
      if (!loaded.ok())
        LogWarn("Failed to read class centres", {{"reason", loaded.error().message}});
    }
    failed = exchange_->GatherNumbers(mine);
    if (!failed.ok()) return failed.error();
    if (std::ranges::count(*failed, kNotNow) == 0) break;
    pause(attempt);
  }
  std::vector<ClassRange> damaged;
  const int size = static_cast<int>(failed->size());
  for (int rank = 0; rank < size; ++rank) {
    if ((*failed)[static_cast<std::size_t>(rank)] == kLoaded) continue;
    damaged.push_back(ShardOf(rank, size, options_.head.classes));
  }
  return damaged.empty() ? std::string() : Describe(damaged) + " (damaged in the checkpoint)";
}

Result<ShardedOutcome> CentreTable::Collect(const ShardedWorld& world) {
  const int size = world.world.size;
  CatchUp(world.adopted);
  std::vector<Block*> blocks;
  for (Block& block : retired_) blocks.push_back(&block);
  for (Block* block : copies_.blocks()) blocks.push_back(block);
  const auto held = exchange_->Gather(Statement(blocks));
  if (!held.ok()) return held.error();
  const RowPlan plan = PlanRows(*held, options_.head.classes);
  if (!plan.lost.empty()) return ShardedOutcome{.lost = Describe(plan.lost)};
  const auto block_of = [&](int64_t block) { return blocks[static_cast<std::size_t>(block - 1)]; };
  std::vector<Block*> needed;
  for (const RowSource& source : plan.sources) {
    if (source.rank == world.world.rank && source.block != kShard) {
      needed.push_back(block_of(source.block));
    }
  }
  const Result<void> replayed =
      exchange_->WorkTogether([&] { return ReplaySome(needed, world.adopted.version); });
  if (!replayed.ok()) return replayed.error();
  if (!StaysInPlace(plan, size, options_.head.classes)) {
    Result<Rows> moved = exchange_->Move(plan, [&](int64_t block) -> const Rows& {
      return block == kShard ? rows_ : block_of(block)->rows;
    });
    if (!moved.ok()) return moved.error();
    if (has_rows_) {
      retired_.push_back(
          {.range = rows_.range(), .version = world.adopted.version, .rows = std::move(rows_)});
    }
    rows_ = *std::move(moved);
    held_ = world.adopted;
    has_rows_ = true;
  }
  once_ = CountRowsHeldOnce(*held, options_.head.classes);
  keep_ = RowsToKeep(world.world.rank, *held, options_.head.classes);
  return Enter(world);
}

// Brings this rank's rows to the adopted version. Drops them if that is not possible, because rows
// of another version cannot be used.
void CentreTable::CatchUp(const LocalState& adopted) {
  if (has_rows_ && held_.version == adopted.version) return;
  const auto step = std::ranges::find(pending_, adopted.version, &StepInputs::version);
  if (!has_rows_ || step == pending_.end()) return Forget();
  step->excluded = adopted.last_step_skipped;
  Replay(options_.head, *step, *device_, *step_, rows_);
  log_.Append(std::move(*step));
  pending_.clear();
  held_ = adopted;
}

void CentreTable::Forget() {
  rows_ = Rows();
  retired_.clear();
  has_rows_ = false;
  pending_.clear();
  log_.Clear();
  copies_.Clear();
}

std::vector<HeldRows> CentreTable::Statement(const std::vector<Block*>& blocks) const {
  if (!has_rows_) return {};
  std::vector<HeldRows> statement{{.range = rows_.range()}};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    statement.push_back({.range = blocks[i]->range,
                         .replays = log_.StepsAfter(blocks[i]->version),
                         .block = static_cast<int64_t>(i) + 1,
                         .copy = i < retired_.size() ? 0 : 1});
  }
  return statement;
}

// Repeats steps on the blocks for up to 1 s: other ranks wait. Returns how many steps are left.
Result<int64_t> CentreTable::ReplaySome(const std::vector<Block*>& needed,
                                        const StateVersion& adopted) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int64_t left = 0;
  for (Block* block : needed) {
    while (block->version < adopted && std::chrono::steady_clock::now() < until) {
      block->Advance(options_.head, log_, *device_, *step_);
    }
    if (block->version < adopted) {
      left += log_.StepsAfter(block->version);
    } else {
      block->Settle(options_.head, *device_);
    }
  }
  return left;
}

Result<ShardedOutcome> CentreTable::Enter(const ShardedWorld& world) {
  checksum_ = rows_.Checksum();
  const Result<uint64_t> whole = exchange_->SumOver(checksum_);
  if (!whole.ok()) return whole.error();
  held_ = world.adopted;
  has_rows_ = true;
  arrived_.reset();
  epoch_ = world.world.epoch;
  rank_ = world.world.rank;
  size_ = world.world.size;
  replica_peers_ = ReplicaPeersOf(world.world.members, size_);
  replica_sources_ = ReplicaSourcesOf(replica_peers_);
  if (size_ == 1) {
    copies_.Clear();
    log_.Clear();
  } else {
    const int source = replica_sources_[static_cast<std::size_t>(rank_)];
    copies_.Enter(ShardOf(source, size_, options_.head.classes), held_.version == StateVersion{});
  }
  unprotected_ = world.unprotected;
  ReportProtection();
  return ShardedOutcome{.lost = {}, .checksum = *whole};
}

void CentreTable::Confirmed() {
  for (const ClassRange& range : keep_) {
    const auto block = std::ranges::find_if(
        retired_, [&](const Block& one) { return Overlap(one.range, range) == range; });
    Rows rows(range, options_.head.dimension);
    block->rows.Read(range, rows.values());
    copies_.Keep({.range = range, .version = block->version, .rows = std::move(rows)});
  }
  keep_.clear();
  retired_.clear();
}

void CentreTable::ReportProtection() {
  const bool unprotected = size_ > 1 && once_ > 0 && !copies_.complete();
  if (unprotected == reported_) return;
  reported_ = unprotected;
  if (!unprotected_) return;
  unprotected_(
      unprotected
          ? "after a change of the world, " + std::to_string(once_) + " of " +
                std::to_string(options_.head.classes) +
                " class centres are on only one rank; until their copies are "
                "complete, in about " +
                std::to_string(copies_.every() / 4 + 1) +
                " steps, a loss of that rank makes training resume from the latest checkpoint"
          : "");
}

// --- steps

void CentreTable::Prepared(StepInputs inputs) {
  inputs.version = held_.Next(epoch_);
  // A step that is computed again to find the cause of a failure keeps its `excluded`.
  if (!pending_.empty() && pending_.back().version == inputs.version) {
    inputs.excluded = pending_.back().excluded;
  }
  if (pending_.size() == kMostPending) pending_.erase(pending_.begin());
  pending_.push_back(std::move(inputs));
}

void CentreTable::Exclude() { pending_.back().excluded = true; }

void CentreTable::Applied(const LocalState& held) {
  KeepCopies();
  StepInputs& inputs = pending_.back();
  if (!inputs.excluded) Update(inputs);
  held_ = held;
  log_.Append(std::move(inputs));
  pending_.clear();
  log_.ForgetUntil(copies_.Oldest(held_.version));
}

void CentreTable::Update(const StepInputs& inputs) {
  if (options_.checksums) checksum_ -= step_->Checksum(rows_);
  step_->Update(rows_, RatesOf(options_.head, inputs.step));
  if (options_.checksums) checksum_ += step_->Checksum(rows_);
}

ShardView CentreTable::view() const {
  ShardView view{
      .row_values = rows_.row_floats(), .first_row = rows_.range().begin, .values = rows_.values()};
  if (rows_.on_host()) return view;
  const auto copy = std::make_shared<const Rows>(rows_.On(HostRows()));
  view.values = copy->values();
  view.owner = copy;
  return view;
}

uint64_t CentreTable::checksum() const { return options_.checksums ? checksum_ : rows_.Checksum(); }

// --- copies

Result<void> CentreTable::ExchangeCopies(StepCollectives& others) {
  arrived_.reset();
  if (size_ == 1) return {};
  const auto size = static_cast<std::size_t>(size_);
  const int source = replica_sources_[static_cast<std::size_t>(rank_)];
  const CopyRound round = copies_.next();
  const ClassRange mine = round.RowsOf(rows_.range(), copies_.every());
  const ClassRange theirs =
      round.RowsOf(ShardOf(source, size_, options_.head.classes), copies_.every());
  const std::span<const float> send = rows_.Of(mine);
  received_.resize(static_cast<std::size_t>(theirs.size() * rows_.row_floats()));
  std::vector<std::size_t> to(size);
  std::vector<std::size_t> from(size);
  to[static_cast<std::size_t>(replica_peers_[static_cast<std::size_t>(rank_)])] = send.size_bytes();
  from[static_cast<std::size_t>(source)] = received_.size() * sizeof(float);
  Result<void> done =
      others.AllToAll(std::as_bytes(send), std::move(to),
                      std::as_writable_bytes(std::span(received_)), std::move(from));
  if (done.ok()) arrived_ = theirs;
  return done;
}

// Keeps the rows that were received in the applied step. Their version is that before the step.
void CentreTable::KeepCopies() {
  if (!arrived_) return;
  copies_.Received(*arrived_, received_, held_.version, options_.head.dimension);
  arrived_.reset();
  ReportProtection();
}

// Moves each row to the rank that will own it if the next world has exactly the ranks that stay.
Result<void> CentreTable::HandOver(Communicator& communicator, bool leaving,
                                   std::chrono::milliseconds timeout) {
  const RowExchange::Options options{.timeout = timeout};
  const int64_t classes = options_.head.classes;
  exchange_ = std::make_unique<RowExchange>(communicator, std::vector<ClassRange>(),
                                            options_.head.dimension, options, *device_);
  const Result<std::vector<uint64_t>> gathered = exchange_->GatherNumbers(leaving ? 1 : 0);
  if (!gathered.ok()) return gathered.error();
  const auto leavers = std::ranges::count(*gathered, 1U);
  if (leavers == 0 || leavers == size_) return {};
  RowPlan plan;
  for (int rank = 0; rank < size_; ++rank) {
    plan.sources.push_back({.range = ShardOf(rank, size_, classes), .rank = rank, .block = kShard});
  }
  exchange_ = std::make_unique<RowExchange>(communicator, ShardsAmong(*gathered, classes),
                                            options_.head.dimension, options, *device_);
  Result<Rows> moved = exchange_->Move(plan, [&](int64_t) -> const Rows& { return rows_; });
  if (!moved.ok()) return moved.error().WithContext("handing class centres over");
  retired_.push_back(
      {.range = moved->range(), .version = held_.version, .rows = *std::move(moved)});
  return {};
}

std::size_t CentreTable::bytes() const {
  std::size_t floats = rows_.values().size();
  for (const Block& block : retired_) floats += block.rows.values().size();
  return floats * sizeof(float) + copies_.bytes() + log_.bytes();
}

}  // namespace ringmaster::trainer::partial_fc
