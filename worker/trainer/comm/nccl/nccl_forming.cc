#include "worker/trainer/comm/nccl/nccl_forming.h"

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "worker/trainer/comm/nccl/nccl_rendezvous.h"

namespace ringmaster::trainer {
namespace {

using control::ConnectStage;

constexpr std::array kPathNames{"new", "shrink", "shrink after abort", "grow"};

NcclStatement StatementOf(NcclRuntime& runtime, const World& world,
                          const std::optional<NcclParent>& parent) {
  NcclStatement statement{.version = runtime.nccl().version,
                          .registers = world.size > 1 && !runtime.registered().empty()};
  if (!parent) return statement;
  statement.parent = parent->name;
  statement.parent_rank = parent->rank;
  statement.parent_size = parent->size;
  statement.state = parent->state;
  return statement;
}

Result<NcclUniqueId> MakeId(const NcclApi& nccl, const std::optional<NcclParent>& parent,
                            NcclPath path) {
  NcclUniqueId id;
  const bool grows = path == NcclPath::kGrow;
  const NcclResult made = grows ? nccl.comm_unique_id(parent->comm, &id) : nccl.get_unique_id(&id);
  if (made == NcclResult::kSuccess) return id;
  return NcclError(nccl, grows ? "ncclCommGetUniqueId" : "ncclGetUniqueId", made);
}

struct Call {
  const char* name;
  NcclResult result;
};

// Starts the call that the plan requires. `parent` is null if this rank has none.
Call Start(const NcclApi& nccl, const World& world, const NcclPlan& plan, NcclComm parent,
           NcclComm* made) {
  NcclConfig config;
  switch (plan.path) {
    case NcclPath::kShrink:
    case NcclPath::kShrinkAbort: {
      std::vector<int> excluded = plan.excluded;
      const auto mode =
          plan.path == NcclPath::kShrink ? NcclShrinkMode::kDefault : NcclShrinkMode::kAbort;
      return {"ncclCommShrink",
              nccl.comm_shrink(parent, excluded.data(), static_cast<int>(excluded.size()), made,
                               &config, static_cast<int>(mode))};
    }
    case NcclPath::kGrow: {
      // Ranks of the parent keep their numbers. Only rank 0 and the new ranks pass the id.
      const bool needs_id = parent == nullptr || world.rank == 0;
      return {"ncclCommGrow", nccl.comm_grow(parent, world.size, needs_id ? &plan.id : nullptr,
                                             parent == nullptr ? world.rank : -1, made, &config)};
    }
    case NcclPath::kNew:
      break;
  }
  return {"ncclCommInitRankConfig", nccl.comm_init(made, world.size, plan.id, world.rank, &config)};
}

bool StartsFromParent(const NcclPlan& plan, const World& world) {
  if (plan.path == NcclPath::kGrow) return world.rank < plan.old_ranks;
  return plan.path != NcclPath::kNew;
}

// Returns the slot's communicator. Some calls set it only when they end, on one of NCCL's threads.
NcclComm MadeAt(NcclComm* slot) { return std::atomic_ref<NcclComm>(*slot).load(); }

// Returns the communicator that reports the state of the call: the parent for a shrink, because it
// already exists, otherwise the new one. Returns null if the new one did not appear in time.
NcclComm BusyWith(NcclPath path, NcclComm parent, NcclComm* made, NcclResult first,
                  const NcclPatience& patience) {
  if (parent != nullptr && path != NcclPath::kGrow) return parent;
  while (first == NcclResult::kInProgress && MadeAt(made) == nullptr && !patience.given_up() &&
         std::chrono::steady_clock::now() < patience.deadline) {
    patience.pause();
  }
  return MadeAt(made);
}

// Waits for `call` and returns the new communicator. After an error, the slot contains it.
Result<NcclComm> AwaitMade(const NcclApi& nccl, NcclPath path, const Call& call, NcclComm parent,
                           NcclComm* made, const NcclPatience& patience) {
  if (call.result != NcclResult::kSuccess && call.result != NcclResult::kInProgress) {
    return NcclError(nccl, call.name, call.result);
  }
  // For shrink and grow, NCCL may return success although its thread has only started (2.27.3 to
  // 2.30.7, src/init.cc: they drop the result "in progress" with which their group ends).
  NcclComm const busy = BusyWith(path, parent, made, call.result, patience);
  Result<void> settled = Settle(nccl, busy, NcclResult::kInProgress, call.name, patience);
  if (!settled.ok()) return settled.error();
  NcclComm const comm = MadeAt(made);
  if (comm == nullptr) return NcclError(nccl, call.name, NcclResult::kInternalError);
  settled = Settle(nccl, comm, StateOf(nccl, comm), call.name, patience);
  if (!settled.ok()) return settled.error();
  return comm;
}

// Abandons a grow, whose thread belongs to the child, reads the parent and waits on sockets of
// both. Revoking the parent ends the waits on its sockets and keeps it readable, so that aborting
// the child can wait for the thread. `parent` and `child` are null if there is none.
void EndGrow(NcclRuntime& runtime, NcclComm parent, NcclComm child, const NcclPatience& patience) {
  const NcclApi& nccl = runtime.nccl();
  if (child != nullptr) {
    if (parent != nullptr) {
      const NcclPatience revoking{
          .deadline = std::chrono::steady_clock::now() + runtime.revoke_limit(),
          .given_up = [] { return false; },
          .pause = patience.pause};
      static_cast<void>(
          Settle(nccl, parent, nccl.comm_revoke(parent, 0), "ncclCommRevoke", revoking));
    }
    runtime.Abort(child);
  }
  if (parent != nullptr) runtime.Abort(parent);
}

// Registers memory with NCCL. After an error, this rank must abort `comm` and not join the world.
Result<void> RegisterMemory(NcclRuntime& runtime, NcclComm comm, const NcclPatience& patience) {
  const NcclApi& nccl = runtime.nccl();
  for (const std::span<std::byte> memory : runtime.registered()) {
    // The handle is not used, because aborting the communicator revokes the registration.
    void* handle = nullptr;
    const NcclResult first = nccl.comm_register(comm, memory.data(), memory.size(), &handle);
    Result<void> settled = Settle(nccl, comm, first, "ncclCommRegister", patience);
    if (settled.ok()) continue;
    if (settled.error().kind == ErrorKind::kUnavailable) runtime.StopRegistering();
    return settled;
  }
  return {};
}

}  // namespace

Result<void> Settle(const NcclApi& nccl, NcclComm comm, NcclResult first, const std::string& call,
                    const NcclPatience& patience) {
  NcclResult now = first;
  while (now == NcclResult::kInProgress) {
    if (patience.given_up()) return Error{ErrorKind::kCancelled, call + " was abandoned"};
    if (std::chrono::steady_clock::now() >= patience.deadline) {
      return Error{ErrorKind::kTimeout, call + " did not finish in time"};
    }
    patience.pause();
    now = StateOf(nccl, comm);
  }
  if (now == NcclResult::kSuccess) return {};
  return NcclError(nccl, call, now);
}

Result<NcclComm> FormCommunicator(NcclRuntime& runtime, const World& world,
                                  const NcclPatience& patience,
                                  const NcclFormingObserver& observer) {
  const NcclApi& nccl = runtime.nccl();
  std::optional<NcclParent> parent = runtime.TakeParked();
  // NCCL cannot use a parent that failed while it was parked (ncclCommEnsureReady).
  if (parent && StateOf(nccl, parent->comm) != NcclResult::kSuccess) {
    runtime.Abort(parent->comm);
    parent.reset();
  }
  observer.comes_to(ConnectStage::kMeet);
  bool grow_begun = false;
  const Result<NcclPlan> plan = AgreeOnPlan(
      world, StatementOf(runtime, world, parent), patience.deadline,
      [&](NcclPath path) {
        grow_begun = path == NcclPath::kGrow;
        return MakeId(nccl, parent, path);
      },
      observer.missing);
  if (!plan.ok()) {
    // Other ranks may have this grow's id and would use it for the next grow, so abort the parent.
    if (grow_begun) {
      runtime.Abort(parent->comm);
    } else if (parent) {
      runtime.ParkAgain(*std::move(parent));  // keep it for the next attempt
    }
    return plan.error();
  }
  const bool descends = parent && StartsFromParent(*plan, world);
  if (parent && !descends) runtime.Abort(parent->comm);
  NcclComm const from = descends ? parent->comm : nullptr;
  NcclComm* const made = runtime.MakeSlot();
  observer.comes_to(ConnectStage::kMake);
  const Call call = Start(nccl, world, *plan, from, made);
  const Result<NcclComm> comm = AwaitMade(nccl, plan->path, call, from, made, patience);
  if (!comm.ok() && plan->path == NcclPath::kGrow) {
    EndGrow(runtime, from, MadeAt(made), patience);
    return comm.error();
  }
  if (comm.ok()) observer.comes_to(ConnectStage::kFinish);
  // Abort the parent only now: the thread of a running shrink reads it and ends with it.
  if (from != nullptr) runtime.Abort(from);
  if (!comm.ok()) {
    if (NcclComm const half_made = MadeAt(made); half_made != nullptr) runtime.Abort(half_made);
    return comm.error();
  }
  if (plan->registers) {
    if (const auto registered = RegisterMemory(runtime, *comm, patience); !registered.ok()) {
      runtime.Abort(*comm);
      return registered.error();
    }
  }
  // The attempt may have been abandoned while a call blocked; the next world may have begun.
  if (patience.given_up()) {
    runtime.Abort(*comm);
    return Error{ErrorKind::kCancelled, "the world ended before it was connected"};
  }
  LogInfo("Created an NCCL communicator",
          {{"how", kPathNames[static_cast<std::size_t>(plan->path)]},
           {"rank", world.rank},
           {"size", world.size},
           {"registered", plan->registers}});
  return *comm;
}

std::string CommunicatorName(const World& world) {
  return std::to_string(world.epoch.term) + "." + std::to_string(world.epoch.number);
}

}  // namespace ringmaster::trainer
