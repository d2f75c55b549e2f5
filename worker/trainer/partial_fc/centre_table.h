#pragma once

// The class centres of one rank, and the data to restore the centres of lost ranks. Contains this
// rank's shard, the log of the last steps' inputs, and a copy of another rank's shard. Implements
// the session's ShardedState; the head (head.h) computes with its rows.
//
// Although only one rank has a row, no update is lost: after a step's forward pass, every rank has
// all inputs of the step's update of any row. If one rank applied a step, all ranks have the step's
// inputs, so a rank that is behind can catch up, and no step is ever undone. The rows of a lost
// rank are restored bit by bit from its replica peer's copy by repeating later steps from the log.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/trainer/elastic/sharded_state.h"
#include "worker/trainer/elastic/step_collectives.h"
#include "worker/trainer/partial_fc/copies.h"
#include "worker/trainer/partial_fc/head_device.h"
#include "worker/trainer/partial_fc/head_options.h"
#include "worker/trainer/partial_fc/input_log.h"
#include "worker/trainer/partial_fc/row_exchange.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {

struct TableOptions {
  HeadOptions head;
  int replica_every = 100;  // number of steps in which each row is sent once to the replica peer
  // Keeps checksum() up to date after every step, at the cost of reading the updated rows twice.
  bool checksums = false;
  std::shared_ptr<HeadDevice> device{};  // null: the host's device
};

// Not thread-safe.
class CentreTable final : public ShardedState {
 public:
  explicit CentreTable(TableOptions options);

  // --- ShardedState
  Result<ShardedOutcome> Sync(const ShardedWorld& world) override;
  void Exclude() override;
  void Applied(const LocalState& held) override;
  Result<void> HandOver(Communicator& communicator, bool leaving,
                        std::chrono::milliseconds timeout) override;
  int64_t all_rows() const override { return options_.head.classes; }
  ShardView view() const override;
  uint64_t checksum() const override;

  // --- for the head, within a step
  const HeadOptions& options() const { return options_.head; }
  // REQUIRES: Sync() has succeeded.
  const Rows& rows() const { return rows_; }
  HeadDevice& device() { return *device_; }
  // Returns the current step, which refers to the labels that Prepared() receives. Valid until
  // Sync().
  ShardStep& step() { return *step_; }
  // Call when a collective of the step is complete, because then every rank has its rows.
  void Confirmed();
  // Call when this rank has completed its forward pass and has all inputs of the step's update.
  void Prepared(StepInputs inputs);
  // Sends the replica peer a piece of the shard as it was before this step, and receives one from
  // the source. Keeps the received piece once the step is applied. Errors are those of `others`.
  Result<void> ExchangeCopies(StepCollectives& others);

  // Returns the size of the memory for rows, copies and log, in bytes.
  std::size_t bytes() const;

 private:
  void Update(const StepInputs& inputs);
  void CatchUp(const LocalState& adopted);
  void Forget();
  std::vector<HeldRows> Statement(const std::vector<Block*>& blocks) const;
  Result<int64_t> ReplaySome(const std::vector<Block*>& needed, const StateVersion& adopted);
  Result<ShardedOutcome> Collect(const ShardedWorld& world);
  Result<ShardedOutcome> Begin(const ShardedWorld& world);
  Result<std::string> Load(const std::function<Result<void>()>& load,
                           const std::function<void(int attempt)>& pause);
  Result<ShardedOutcome> Enter(const ShardedWorld& world);
  void ReportProtection();
  void KeepCopies();

  const TableOptions options_;
  const std::shared_ptr<HeadDevice> device_;

  Rows rows_;        // on device_
  LocalState held_;  // version of rows_
  bool has_rows_ = false;
  // Shards of earlier worlds. They are kept until all ranks of this world have their rows.
  std::vector<Block> retired_;
  std::vector<ClassRange>
      keep_;  // parts of retired_ that become copies; otherwise only the new owner would have them
  std::unique_ptr<ShardStep> step_;  // the step of this world
  std::vector<StepInputs> pending_;  // inputs of attempts at the next step, the newest last
  InputLog log_;
  Copies copies_;
  uint64_t checksum_ = 0;

  // State of the current world.
  control::Epoch epoch_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> replica_peers_, replica_sources_;
  int64_t once_ = 0;  // number of rows that only one rank has until copies_ is complete
  bool reported_ = false;
  std::function<void(const std::string& reason)> unprotected_;

  // Memory that collective operations use.
  std::unique_ptr<RowExchange> exchange_;
  std::vector<float> received_;
  std::optional<ClassRange> arrived_;  // range of the values that were received in this step
};

}  // namespace ringmaster::trainer::partial_fc
