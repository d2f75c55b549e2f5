#pragma once

// GPUs of several processes that communicate over an in-memory NCCL. One thread executes the
// streams of all GPUs, one operation at a time and in a random order. A GPU may be killed with its
// process, or hang, at any time.
//
// The fake is as strict about creating, revoking and aborting communicators as fake_nccl.h, which
// has one rank only. A collective behaves as NCCL's kernels do (prims_simple.h, prims_ll.h): it
// needs the data of every rank, so it never ends if a GPU was killed or hangs. If one rank revokes
// or aborts, its kernels stop waiting and forward garbage, so the kernels of its peers may end
// normally with wrong results. An abort waits until the device has executed what was launched.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/trainer/comm/nccl/device_api.h"
#include "worker/trainer/comm/nccl/nccl_api.h"

namespace ringmaster::trainer {

class FakeGpus;

// The GPU of one process, and the process's NCCL. Thread-safe.
class FakeGpu {
 public:
  explicit FakeGpu(FakeGpus& all) : all_(all) {}

  // Ends the process at once: its device executes nothing more, and all its calls fail. If
  // `noticed`, the NCCL of some of its peers notices a closed socket, and keeps that error.
  void Kill(bool noticed);
  // The device executes nothing more.
  void Hang();
  // Declares that `memory` is on the device.
  void Own(std::span<const std::byte> memory);

  // Return the functions of a version of NCCL, and the device. Neither may outlive the FakeGpus.
  NcclApi Nccl(int version);
  std::unique_ptr<DeviceApi> Device();

 private:
  friend class FakeGpus;
  friend class FakeGpuDevice;

  using Work = std::function<bool()>;  // returns false while it has to wait
  using Stream = std::deque<Work>;
  struct Event {
    bool done = true;
    uint64_t recorded = 0;  // how often
  };
  struct Communicator;
  // A collective. `data` is that of the ranks that have begun it.
  struct Collective {
    std::vector<std::optional<std::vector<std::byte>>> data{};
    int ended = 0;         // number of ranks on which it has ended
    bool garbage = false;  // a rank stopped waiting
  };
  // The communicators that several ranks create together.
  struct Group {
    std::string name{};
    std::vector<Communicator*> ranks{};  // null: the rank has not joined
    int joined = 0;
    std::map<uint64_t, Collective> collectives{};
  };
  struct Communicator {
    FakeGpu* gpu = nullptr;
    Group* group = nullptr;
    int rank = 0;
    uint64_t launched = 0;
    int running = 0;  // number of collectives that were launched and have not ended
    bool revoked = false;
    bool aborted = false;
    NcclResult error = NcclResult::kSuccess;  // NCCL keeps it
    int polls_left = 3;                       // until it is created
    // While a thread of NCCL creates a child of this communicator: the child, and where to put it.
    Communicator* shrinks_to = nullptr;
    NcclComm* slot = nullptr;
    Communicator* grows_from = nullptr;  // the parent, while this one is created from it

    bool stops_waiting() const { return revoked || aborted; }
    // Polls whether it is created.
    bool PollReady() {
      return group->joined == static_cast<int>(group->ranks.size()) && --polls_left <= 0;
    }
  };
  // What the ranks of a collective compute from their data.
  using Compute = std::function<void(const std::vector<std::optional<std::vector<std::byte>>>& data,
                                     std::byte* to)>;

  static Communicator& Of(NcclComm comm) { return *reinterpret_cast<Communicator*>(comm); }
  static NcclComm CommOf(Communicator* one) { return reinterpret_cast<NcclComm>(one); }

  Communicator* Join(const std::string& name, int size, int rank);
  NcclResult StateOf(Communicator& one);
  NcclResult Shrink(Communicator& parent, std::span<const int> excluded, NcclComm* made,
                    NcclShrinkMode mode);
  NcclResult Grow(Communicator* parent, int size, const NcclUniqueId* id, int rank, NcclComm* made);
  NcclResult Revoke(Communicator& one);
  NcclResult Abort(Communicator& one);
  NcclResult Launch(Communicator& one, Stream& stream, std::span<const std::byte> from,
                    std::span<std::byte> to, const Compute& compute);
  bool Advance(Communicator& one, uint64_t number, std::span<const std::byte> from,
               std::span<std::byte> to, const Compute& compute);

  FakeGpus& all_;
  // Guarded by the mutex of all_.
  bool killed_ = false;
  bool hangs_ = false;
  std::vector<std::span<const std::byte>> owned_;
  std::deque<Stream> streams_ = std::deque<Stream>(1);  // the first is the computing stream
  std::deque<Event> events_;
  std::deque<Communicator> communicators_;
  std::deque<std::vector<std::byte>> memory_;
};

// Thread-safe. The threads and runtimes that use its GPUs must have ended when it is destroyed.
class FakeGpus {
 public:
  explicit FakeGpus(uint64_t seed) : random_(seed) {
    device_ = std::jthread([this](const std::stop_token& stop) { Execute(stop); });
  }

  FakeGpu& Make() {
    const std::lock_guard lock(mutex_);
    return gpus_.emplace_back(*this);
  }

 private:
  friend class FakeGpu;
  friend class FakeGpuDevice;

  void Execute(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const uint64_t before = changes_;
      if (ExecuteOne()) {
        Changed();
        lock.unlock();
        std::this_thread::yield();  // lets the processes run between two operations
        lock.lock();
      } else {
        changed_.wait(lock, stop, [&] { return changes_ != before; });
      }
    }
  }

  // Executes the first operation of a random stream whose first operation need not wait.
  bool ExecuteOne() {
    std::vector<FakeGpu::Stream*> busy;
    for (FakeGpu& gpu : gpus_) {
      if (gpu.killed_ || gpu.hangs_) continue;
      for (FakeGpu::Stream& stream : gpu.streams_) {
        if (!stream.empty()) busy.push_back(&stream);
      }
    }
    std::ranges::shuffle(busy, random_);
    const auto runnable =
        std::ranges::find_if(busy, [](FakeGpu::Stream* stream) { return stream->front()(); });
    if (runnable == busy.end()) return false;
    (*runnable)->pop_front();
    return true;
  }

  void Changed() {
    ++changes_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t changes_ = 0;
  uint64_t ids_ = 0;
  std::mt19937_64 random_;
  std::map<std::string, FakeGpu::Group> groups_;  // by name
  std::map<uint64_t, std::string> grown_groups_;  // by id
  std::deque<FakeGpu> gpus_;
  std::jthread device_;  // the last member, because it uses the others
};

inline void FakeGpu::Kill(bool noticed) {
  const std::lock_guard lock(all_.mutex_);
  killed_ = true;
  for (Stream& stream : streams_) stream.clear();
  for (const Communicator& one : communicators_) {
    if (!noticed || one.aborted) continue;
    for (Communicator* peer : one.group->ranks) {
      const bool neighbour = peer != nullptr && all_.random_() % 4 == 0;
      if (neighbour && !peer->aborted) peer->error = NcclResult::kRemoteError;
    }
  }
  all_.Changed();
}

inline void FakeGpu::Hang() {
  const std::lock_guard lock(all_.mutex_);
  hangs_ = true;
}

inline void FakeGpu::Own(std::span<const std::byte> memory) {
  const std::lock_guard lock(all_.mutex_);
  owned_.push_back(memory);
}

inline FakeGpu::Communicator* FakeGpu::Join(const std::string& name, int size, int rank) {
  Group& group = all_.groups_[name];
  if (group.name.empty()) {
    group.name = name;
    group.ranks.resize(static_cast<std::size_t>(size));
  }
  Communicator*& place = group.ranks.at(static_cast<std::size_t>(rank));
  if (place != nullptr || static_cast<int>(group.ranks.size()) != size) std::abort();
  place = &communicators_.emplace_back(Communicator{.gpu = this, .group = &group, .rank = rank});
  ++group.joined;
  return place;
}

inline NcclResult FakeGpu::StateOf(Communicator& one) {
  if (one.aborted) std::abort();
  if (one.shrinks_to != nullptr) {
    if (!one.shrinks_to->PollReady())
      return one.error == NcclResult::kSuccess ? NcclResult::kInProgress : one.error;
    std::atomic_ref<NcclComm>(*one.slot).store(CommOf(std::exchange(one.shrinks_to, nullptr)));
  }
  if (one.error != NcclResult::kSuccess) return one.error;
  if (!one.PollReady()) return NcclResult::kInProgress;
  one.grows_from = nullptr;
  return NcclResult::kSuccess;
}

inline NcclResult FakeGpu::Shrink(Communicator& parent, std::span<const int> excluded,
                                  NcclComm* made, NcclShrinkMode mode) {
  if (parent.aborted) std::abort();
  if (parent.error != NcclResult::kSuccess) return parent.error;
  if (mode == NcclShrinkMode::kAbort) parent.revoked = true;
  if (parent.running > 0 && mode == NcclShrinkMode::kDefault) std::abort();
  std::string name = "shrunk " + parent.group->name;
  int before = 0;
  for (const int rank : excluded) {
    name += " " + std::to_string(rank);
    if (rank < parent.rank) ++before;
  }
  const int size = static_cast<int>(parent.group->ranks.size() - excluded.size());
  parent.shrinks_to = Join(name, size, parent.rank - before);
  parent.slot = made;
  return NcclResult::kSuccess;
}

inline NcclResult FakeGpu::Grow(Communicator* parent, int size, const NcclUniqueId* id, int rank,
                                NcclComm* made) {
  if (parent != nullptr && (parent->aborted || parent->running > 0)) std::abort();
  if (parent != nullptr && parent->error != NcclResult::kSuccess) return parent->error;
  std::string name;
  if (parent != nullptr) {
    name = "grown " + parent->group->name;
    rank = parent->rank;
  } else {
    uint64_t number = 0;
    std::memcpy(&number, id->bytes.data(), sizeof(number));
    name = all_.grown_groups_.at(number);
  }
  Communicator* const child = Join(name, size, rank);
  child->grows_from = parent;
  std::atomic_ref<NcclComm>(*made).store(CommOf(child));
  return NcclResult::kSuccess;
}

inline NcclResult FakeGpu::Revoke(Communicator& one) {
  if (one.aborted) std::abort();
  if (std::exchange(one.revoked, true)) return NcclResult::kInvalidArgument;
  return NcclResult::kSuccess;
}

inline NcclResult FakeGpu::Abort(Communicator& one) {
  if (std::exchange(one.aborted, true)) std::abort();
  if (one.shrinks_to != nullptr) {
    one.shrinks_to->error = NcclResult::kInternalError;
    std::atomic_ref<NcclComm>(*one.slot).store(CommOf(std::exchange(one.shrinks_to, nullptr)));
  }
  // The thread that creates a child still reads the parent, or waits on its sockets.
  for (const Communicator& child : communicators_) {
    if (child.grows_from == &one && !child.aborted && !killed_) std::abort();
  }
  if (one.grows_from != nullptr && !one.grows_from->revoked && !killed_) std::abort();
  return NcclResult::kSuccess;
}

inline NcclResult FakeGpu::Launch(Communicator& one, Stream& stream,
                                  std::span<const std::byte> from, std::span<std::byte> to,
                                  const Compute& compute) {
  if (one.aborted) std::abort();
  if (one.revoked || one.shrinks_to != nullptr || !one.PollReady())
    return NcclResult::kInvalidUsage;
  if (one.error != NcclResult::kSuccess) return one.error;
  ++one.running;
  stream.push_back([this, &one, number = one.launched++, from, to, compute] {
    return Advance(one, number, from, to, compute);
  });
  return NcclResult::kSuccess;
}

// Begins or ends a collective on this rank. Returns whether it has ended.
inline bool FakeGpu::Advance(Communicator& one, uint64_t number, std::span<const std::byte> from,
                             std::span<std::byte> to, const Compute& compute) {
  Group& group = *one.group;
  Collective& collective = group.collectives[number];
  if (collective.data.empty()) collective.data.resize(group.ranks.size());
  std::optional<std::vector<std::byte>>& mine =
      collective.data.at(static_cast<std::size_t>(one.rank));
  if (!mine) {
    mine.emplace(from.begin(), from.end());
    all_.Changed();
    if (group.ranks.size() > 1 && !one.stops_waiting()) return false;  // ends later
  }
  const bool complete =
      std::ranges::all_of(collective.data, [](const auto& data) { return data.has_value(); });
  if (one.stops_waiting()) collective.garbage = true;
  if (!complete && !collective.garbage) return false;
  if (!complete || (collective.garbage && (all_.random_() & 1) != 0)) {
    std::ranges::generate(to, [this] { return static_cast<std::byte>(all_.random_()); });
  } else {
    compute(collective.data, to.data());
  }
  --one.running;
  if (++collective.ended == static_cast<int>(group.ranks.size())) group.collectives.erase(number);
  return true;
}

template <typename T>
void Reduce(const std::vector<std::optional<std::vector<std::byte>>>& data, NcclOp op,
            std::byte* to) {
  std::vector<T> all(data.front()->size() / sizeof(T));
  std::memcpy(all.data(), data.front()->data(), data.front()->size());
  for (std::size_t rank = 1; rank < data.size(); ++rank) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      T value{};
      std::memcpy(&value, data[rank]->data() + i * sizeof(T), sizeof(T));
      if (op == NcclOp::kSum) all[i] = static_cast<T>(all[i] + value);
      if (op == NcclOp::kMax) all[i] = std::max(all[i], value);
      if (op == NcclOp::kMin) all[i] = std::min(all[i], value);
    }
  }
  std::memcpy(to, all.data(), all.size() * sizeof(T));
}

// The functions that the trainer's replicated state needs.
inline NcclApi FakeGpu::Nccl(int version) {
  // Runs `call` under the lock, unless the process was killed.
  const auto locked = [this](auto call) {
    return [this, call](auto... arguments) {
      const std::lock_guard lock(all_.mutex_);
      if (killed_) return NcclResult::kSystemError;
      const NcclResult result = call(arguments...);
      all_.Changed();
      return result;
    };
  };
  const auto write_id = [this](NcclUniqueId* id) {
    const uint64_t number = ++all_.ids_;
    std::memcpy(id->bytes.data(), &number, sizeof(number));
    return number;
  };
  NcclApi api;
  api.version = version;
  api.error_string = [](NcclResult) { return "a fake error"; };
  api.get_unique_id = locked([write_id](NcclUniqueId* id) {
    write_id(id);
    return NcclResult::kSuccess;
  });
  api.comm_init = locked([this](NcclComm* made, int size, NcclUniqueId id, int rank, NcclConfig*) {
    uint64_t number = 0;
    std::memcpy(&number, id.bytes.data(), sizeof(number));
    std::atomic_ref<NcclComm>(*made).store(
        CommOf(Join("new " + std::to_string(number), size, rank)));
    return NcclResult::kInProgress;
  });
  api.comm_async_error = locked([this](NcclComm comm, NcclResult* error) {
    *error = StateOf(Of(comm));
    return NcclResult::kSuccess;
  });
  api.comm_abort = [this](NcclComm comm) {
    std::unique_lock lock(all_.mutex_);
    const NcclResult result = Abort(Of(comm));
    all_.Changed();
    all_.changed_.wait(lock, [&] { return killed_ || Of(comm).running == 0; });
    return result;
  };
  api.all_reduce = locked([this](const void* from, void* to, std::size_t count, NcclType type,
                                 NcclOp op, NcclComm comm, NcclStream stream) {
    const std::size_t bytes = count * (type == NcclType::kUint8     ? 1
                                       : type == NcclType::kFloat32 ? sizeof(float)
                                                                    : sizeof(uint64_t));
    return Launch(
        Of(comm), *static_cast<Stream*>(stream), {static_cast<const std::byte*>(from), bytes},
        {static_cast<std::byte*>(to), bytes}, [type, op](const auto& data, std::byte* into) {
          if (type == NcclType::kFloat32) return Reduce<float>(data, op, into);
          if (type == NcclType::kUint8) return Reduce<uint8_t>(data, op, into);
          if (type == NcclType::kUint64) return Reduce<uint64_t>(data, op, into);
          std::abort();
        });
  });
  api.all_gather = locked([this](const void* from, void* to, std::size_t bytes, NcclType,
                                 NcclComm comm, NcclStream stream) {
    Communicator& one = Of(comm);
    return Launch(one, *static_cast<Stream*>(stream), {static_cast<const std::byte*>(from), bytes},
                  {static_cast<std::byte*>(to), bytes * one.group->ranks.size()},
                  [bytes](const auto& data, std::byte* into) {
                    for (const auto& of_rank : data) {
                      std::memcpy(into, of_rank->data(), bytes);
                      into += bytes;
                    }
                  });
  });
  api.broadcast = locked([this](const void* from, void* to, std::size_t bytes, NcclType, int root,
                                NcclComm comm, NcclStream stream) {
    return Launch(
        Of(comm), *static_cast<Stream*>(stream), {static_cast<const std::byte*>(from), bytes},
        {static_cast<std::byte*>(to), bytes}, [root, bytes](const auto& data, std::byte* into) {
          std::memcpy(into, data.at(static_cast<std::size_t>(root))->data(), bytes);
        });
  });
  if (version >= kNcclShrinkSince) {
    api.comm_shrink = locked(
        [this](NcclComm parent, int* excluded, int count, NcclComm* made, NcclConfig*, int mode) {
          return Shrink(Of(parent), {excluded, static_cast<std::size_t>(count)}, made,
                        static_cast<NcclShrinkMode>(mode));
        });
  }
  if (version >= kNcclRevokeSince) {
    api.comm_revoke = locked([this](NcclComm comm, int) { return Revoke(Of(comm)); });
  }
  if (version >= kNcclGrowSince) {
    api.comm_unique_id = locked([this, write_id](NcclComm comm, NcclUniqueId* id) {
      all_.grown_groups_[write_id(id)] = "grown " + Of(comm).group->name;
      return NcclResult::kSuccess;
    });
    api.comm_grow = locked([this](NcclComm parent, int size, const NcclUniqueId* id, int rank,
                                  NcclComm* made, NcclConfig*) {
      return Grow(parent == nullptr ? nullptr : &Of(parent), size, id, rank, made);
    });
  }
  return api;
}

class FakeGpuDevice final : public DeviceApi {
 public:
  explicit FakeGpuDevice(FakeGpu& gpu) : gpu_(gpu), all_(gpu.all_) {}

  Result<void> Use() override {
    return Call([] {});
  }
  DeviceStream ComputingStream() override { return &gpu_.streams_.front(); }
  Result<DeviceStream> MakeStream() override {
    const std::lock_guard lock(all_.mutex_);
    if (gpu_.killed_) return Killed();
    return static_cast<DeviceStream>(&gpu_.streams_.emplace_back());
  }
  void DropStream(DeviceStream) override {}
  Result<DeviceEvent> MakeEvent() override {
    const std::lock_guard lock(all_.mutex_);
    if (gpu_.killed_) return Killed();
    return static_cast<DeviceEvent>(&gpu_.events_.emplace_back());
  }
  void DropEvent(DeviceEvent) override {}
  Result<void> Record(DeviceEvent event, DeviceStream stream) override {
    auto* const marked = static_cast<FakeGpu::Event*>(event);
    return Call([&] {
      marked->done = false;
      Put(stream, [marked, recorded = ++marked->recorded] {
        if (marked->recorded == recorded) marked->done = true;
        return true;
      });
    });
  }
  Result<void> Follow(DeviceStream stream, DeviceEvent event) override {
    const auto* const marked = static_cast<FakeGpu::Event*>(event);
    return Call([&] { Put(stream, [marked] { return marked->done; }); });
  }
  Result<bool> Done(DeviceEvent event) override {
    const std::lock_guard lock(all_.mutex_);
    if (gpu_.killed_) return Killed();
    return static_cast<FakeGpu::Event*>(event)->done;
  }
  bool Holds(const void* memory) override {
    const std::lock_guard lock(all_.mutex_);
    return std::ranges::any_of(gpu_.owned_, [memory](std::span<const std::byte> owned) {
      return memory >= owned.data() && memory < owned.data() + owned.size();
    });
  }
  Result<void*> MakeMemory(std::size_t bytes) override {
    const std::lock_guard lock(all_.mutex_);
    if (gpu_.killed_) return Killed();
    return static_cast<void*>(gpu_.memory_.emplace_back(bytes).data());
  }
  Result<void*> MakePinned(std::size_t bytes) override { return MakeMemory(bytes); }
  Result<void> Copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) override {
    return Call([&] {
      Put(stream, [to, from, bytes] {
        std::memcpy(to, from, bytes);
        return true;
      });
    });
  }
  Result<void> Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                          DeviceStream stream) override {
    return Call([&] {
      Put(stream, [to, part, gave_up] {
        *to = std::atomic_ref<uint32_t>(const_cast<uint32_t&>(*gave_up)).load() == 0 ? part : 0;
        return true;
      });
    });
  }

 private:
  static Error Killed() { return {ErrorKind::kUnavailable, "the process was killed"}; }
  static void Put(DeviceStream stream, FakeGpu::Work work) {
    static_cast<FakeGpu::Stream*>(stream)->push_back(std::move(work));
  }
  Result<void> Call(const std::function<void()>& call) {
    const std::lock_guard lock(all_.mutex_);
    if (gpu_.killed_) return Killed();
    call();
    all_.Changed();
    return {};
  }

  FakeGpu& gpu_;
  FakeGpus& all_;
};

inline std::unique_ptr<DeviceApi> FakeGpu::Device() {
  return std::make_unique<FakeGpuDevice>(*this);
}

}  // namespace ringmaster::trainer
