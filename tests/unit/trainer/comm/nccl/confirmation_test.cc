// Tests a reduction and its confirmation on two ranks, in every order of the steps of the devices
// and of the points at which the hosts give up, revoke or abort. If both operations succeed on a
// rank, the rank must have the sums of all ranks. The communicators are real and each has a thread;
// device and NCCL are fakes that the test advances one step at a time.
//
// After a revoke or an abort, the fake kernels do what NCCL's do (prims_simple.h, prims_ll.h): they
// stop waiting, continue with the old contents of the peer's buffer, and send the result on.

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/eventually.h"
#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/comm/nccl/nccl_communicator.h"

namespace ringmaster::trainer {
namespace {

using std::chrono::seconds;

constexpr seconds kForever{120};
constexpr std::size_t kRanks = 2;
constexpr uint64_t kRubbish = 0x4141;

// What a rank has sent to its peer in one reduction: first its own numbers, then the sums that it
// computed. Rank i computes the sum of number i.
struct Posted {
  std::optional<std::vector<uint64_t>> own{};
  std::optional<std::vector<uint64_t>> sums{};
};

// One operation on a stream.
struct OnStream {
  std::function<void()> at_once{};  // runs as soon as it is first in line, without a test step
  // A contribution if `part` is not 0, else a reduction.
  uint64_t* to = nullptr;
  uint64_t part = 0;
  const uint32_t* gave_up = nullptr;
  std::size_t count = 0;
  std::size_t reduction = 0;  // index of the reduction in its world
  int phase = 0;
};

class Devices;

// One rank's device and NCCL.
class SteppedRank final : public DeviceApi {
 public:
  SteppedRank(Devices& all, std::size_t rank) : all_(all), rank_(rank) {}

  NcclApi Api(bool revokes);

  Result<void> Use() override { return {}; }
  DeviceStream ComputingStream() override { return this; }
  Result<DeviceStream> MakeStream() override { return static_cast<DeviceStream>(&stream_); }
  void DropStream(DeviceStream) override {}
  Result<DeviceEvent> MakeEvent() override { return static_cast<DeviceEvent>(new bool(true)); }
  void DropEvent(DeviceEvent event) override { delete static_cast<bool*>(event); }
  Result<void> Record(DeviceEvent event, DeviceStream stream) override;
  Result<void> Follow(DeviceStream, DeviceEvent) override { return {}; }
  Result<bool> Done(DeviceEvent event) override;
  bool Holds(const void*) override { return false; }
  Result<void*> MakeMemory(std::size_t bytes) override;
  Result<void*> MakePinned(std::size_t bytes) override { return MakeMemory(bytes); }
  Result<void> Copy(void* to, const void* from, std::size_t bytes, DeviceStream) override;
  Result<void> Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                          DeviceStream) override;

 private:
  friend class Devices;
  void Put(OnStream next);

  Devices& all_;
  const std::size_t rank_;
  std::deque<OnStream> stream_;
  std::size_t reductions_ = 0;  // number of reductions put on the stream
  std::vector<uint64_t> sums_;  // sums of the current reduction
  bool ended_ = false;          // revoked or aborted: the kernels no longer wait
  bool may_end_ = false;        // the test lets the rank revoke or abort
  bool would_end_ = false;      // the rank has called revoke or abort
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

// Thread-safe.
class Devices {
 public:
  explicit Devices(bool revokes) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      auto device = std::make_unique<SteppedRank>(*this, rank);
      NcclApi nccl = device->Api(revokes);
      ranks_[rank] = device.get();
      runtimes_[rank] = std::make_shared<NcclRuntime>(
          std::move(nccl), std::move(device),
          NcclRuntime::Options{.abort_limit = kForever, .revoke_limit = kForever});
    }
  }

  const std::shared_ptr<NcclRuntime>& runtime(std::size_t rank) { return runtimes_[rank]; }

  bool CanStep(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    return Enabled(rank);
  }
  void Step(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    Take(rank);
  }
  bool Idle(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    return ranks_[rank]->stream_.empty();
  }
  // Returns whether each stream has all operations of the reduction and its confirmation: a
  // contribution, two reductions, and for each reduction a copy of its sums and an event.
  bool Launched() {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(ranks_,
                               [](const SteppedRank* one) { return one->stream_.size() == 7; });
  }
  // Lets the rank revoke or abort, and waits until this has happened.
  void LetEnd(std::size_t rank) {
    std::unique_lock lock(mutex_);
    ranks_[rank]->may_end_ = true;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, kForever, [&] { return ranks_[rank]->ended_; }));
  }
  bool WouldEnd(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    return ranks_[rank]->would_end_;
  }
  bool HasEnded(std::size_t rank) {
    const std::lock_guard lock(mutex_);
    return ranks_[rank]->ended_;
  }
  // Lets all kernels finish without waiting, from now on.
  void RunFree() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    for (SteppedRank* one : ranks_) one->may_end_ = one->ended_ = true;
    changed_.notify_all();
    for (std::size_t rank = 0; rank < kRanks; ++rank) Drain(rank);
  }
  // Returns the whole state of both devices as text. Equal states continue in the same way.
  std::string State() {
    const std::lock_guard lock(mutex_);
    std::string text;
    const auto add = [&text](const auto& numbers) {
      text += "[";
      for (const uint64_t number : numbers) text += std::to_string(number) + ",";
      text += "]";
    };
    for (const SteppedRank* one : ranks_) {
      text += std::to_string(one->stream_.size()) + (one->ended_ ? "e" : "r");
      for (const OnStream& item : one->stream_) {
        if (item.at_once) continue;
        if (item.part == 0) {
          text += std::to_string(item.phase);
          add(std::span(item.to, item.count));
        } else {
          text += GaveUp(item) ? "g" : "c";
        }
      }
      add(one->sums_);
    }
    for (const auto& reduction : posted_) {
      for (const Posted& by : reduction) {
        if (by.own) add(*by.own);
        if (by.sums) add(*by.sums);
        text += ";";
      }
    }
    return text;
  }

 private:
  friend class SteppedRank;

  static bool GaveUp(const OnStream& item) {
    return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(*item.gave_up)).load() != 0;
  }

  // Returns what the peer has sent, or the old contents of its buffer.
  std::vector<uint64_t> Found(std::size_t rank, const OnStream& item,
                              std::optional<std::vector<uint64_t>> Posted::*which) const {
    const std::size_t peer = 1 - rank;
    if (posted_[item.reduction][peer].*which) return *(posted_[item.reduction][peer].*which);
    std::vector<uint64_t> before(item.count, kRubbish);
    if (item.reduction == 0) return before;
    const std::optional<std::vector<uint64_t>>& older = posted_[item.reduction - 1][peer].*which;
    if (older) std::copy_n(older->begin(), std::min(older->size(), item.count), before.begin());
    return before;
  }

  bool Enabled(std::size_t rank) const {
    const SteppedRank& one = *ranks_[rank];
    if (one.stream_.empty()) return false;
    const OnStream& item = one.stream_.front();
    if (item.part != 0 || item.phase == 0 || one.ended_) return true;
    const Posted& peer = posted_[item.reduction][1 - rank];
    return item.phase == 1 ? peer.own.has_value() : peer.sums.has_value();
  }

  void Take(std::size_t rank) {
    SteppedRank& one = *ranks_[rank];
    OnStream& item = one.stream_.front();
    Posted& mine = posted_[item.reduction][rank];
    if (item.part != 0) {
      *item.to = GaveUp(item) ? 0 : item.part;
      one.stream_.pop_front();
    } else if (item.phase == 0) {
      mine.own = std::vector<uint64_t>(item.to, item.to + item.count);
      item.phase = 1;
    } else if (item.phase == 1) {
      const std::vector<uint64_t> theirs = Found(rank, item, &Posted::own);
      one.sums_.assign(item.to, item.to + item.count);
      for (std::size_t i = 0; i < item.count; ++i) one.sums_[i] += theirs[i];
      mine.sums = one.sums_;
      item.phase = 2;
    } else {
      const std::vector<uint64_t> theirs = Found(rank, item, &Posted::sums);
      for (std::size_t i = 0; i < item.count; ++i) {
        item.to[i] = i % kRanks == rank ? one.sums_[i] : theirs[i];
      }
      one.stream_.pop_front();
    }
    Drain(rank);
  }

  // Runs the operations that need no step of the test; after RunFree(), all operations.
  void Drain(std::size_t rank) {
    std::deque<OnStream>& stream = ranks_[rank]->stream_;
    while (!stream.empty() && (stream.front().at_once || free_)) {
      if (!stream.front().at_once) {
        Take(rank);
        continue;
      }
      stream.front().at_once();
      stream.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool free_ = false;
  std::array<SteppedRank*, kRanks> ranks_{};
  std::array<std::array<Posted, kRanks>, 2> posted_{};  // by reduction
  std::array<std::shared_ptr<NcclRuntime>, kRanks> runtimes_;
};

void SteppedRank::Put(OnStream next) {
  const std::lock_guard lock(all_.mutex_);
  if (next.count > 0) next.reduction = reductions_++;
  stream_.push_back(std::move(next));
  all_.Drain(rank_);
}

Result<void*> SteppedRank::MakeMemory(std::size_t bytes) {
  const std::lock_guard lock(all_.mutex_);
  return static_cast<void*>(memory_.emplace_back(std::make_unique<std::byte[]>(bytes)).get());
}

Result<void> SteppedRank::Record(DeviceEvent event, DeviceStream stream) {
  auto* const done = static_cast<bool*>(event);
  if (stream != &stream_) return {};
  {
    const std::lock_guard lock(all_.mutex_);
    *done = false;
  }
  Put({.at_once = [done] { *done = true; }});
  return {};
}

Result<bool> SteppedRank::Done(DeviceEvent event) {
  const std::lock_guard lock(all_.mutex_);
  return *static_cast<bool*>(event);
}

Result<void> SteppedRank::Copy(void* to, const void* from, std::size_t bytes, DeviceStream) {
  Put({.at_once = [=] { std::memcpy(to, from, bytes); }});
  return {};
}

Result<void> SteppedRank::Contribute(uint64_t* to, uint64_t part, const uint32_t* gave_up,
                                     DeviceStream) {
  if (part != 0) Put({.to = to, .part = part, .gave_up = gave_up});
  return {};
}

NcclApi SteppedRank::Api(bool revokes) {
  NcclApi api;
  api.version = kNcclRevokeSince;
  api.error_string = [](NcclResult) { return "an error"; };
  api.get_unique_id = [](NcclUniqueId*) { return NcclResult::kSuccess; };
  api.comm_init = [this](NcclComm* made, int, NcclUniqueId, int, NcclConfig*) {
    *made = reinterpret_cast<NcclComm>(this);
    return NcclResult::kSuccess;
  };
  api.comm_async_error = [](NcclComm, NcclResult* error) {
    *error = NcclResult::kSuccess;
    return NcclResult::kSuccess;
  };
  const auto end = [this] {
    std::unique_lock lock(all_.mutex_);
    would_end_ = true;
    all_.changed_.wait(lock, [this] { return may_end_; });
    ended_ = true;
    all_.changed_.notify_all();
    return NcclResult::kSuccess;
  };
  api.comm_abort = [end](NcclComm) { return end(); };
  if (revokes) {
    api.comm_revoke = [end](NcclComm, int) { return end(); };
    api.comm_shrink = [](NcclComm, int*, int, NcclComm*, NcclConfig*, int) {
      return NcclResult::kInternalError;
    };
  }
  api.all_reduce = [this](const void*, void* to, std::size_t count, NcclType, NcclOp, NcclComm,
                          NcclStream) {
    Put({.to = static_cast<uint64_t*>(to), .count = count});
    return NcclResult::kSuccess;
  };
  return api;
}

// An event that the test can cause.
enum class Event { kStepOf0, kStepOf1, kFirstGivesUp, kFirstEnds, kSecondGivesUp, kSecondEnds };

// Two ranks that have launched a reduction and its confirmation.
class Scene {
 public:
  // `first`: the rank that gives up first, if one does.
  Scene(bool revokes, std::size_t first) : devices_(revokes), first_(first) {
    const auto store = std::make_shared<MemoryStore>();
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      World world;
      world.store = store;
      world.rank = static_cast<int>(rank);
      world.size = kRanks;
      communicators_[rank] = std::make_unique<NcclCommunicator>(devices_.runtime(rank), world,
                                                                In(kForever), abandoned_connects_);
      values_[rank] = {rank + 1, 10 * (rank + 1)};
      reduced_[rank] = communicators_[rank]->AllReduce(
          {reinterpret_cast<std::byte*>(values_[rank].data()), 2, ElementType::kUint64},
          ReduceOp::kSum, In(kForever));
      confirmed_[rank] = communicators_[rank]->Confirm(In(kForever));
    }
    EXPECT_TRUE(Eventually([&] { return devices_.Launched(); }));
  }
  ~Scene() { Close(); }

  void Happens(Event event) {
    const std::size_t second = 1 - first_;
    switch (event) {
      case Event::kStepOf0:
      case Event::kStepOf1: {
        const auto rank = static_cast<std::size_t>(event);
        devices_.Step(rank);
        // A host that has not given up receives the results of its device.
        if (devices_.Idle(rank) && !gave_up_[rank]) AwaitBoth(rank);
        return;
      }
      case Event::kFirstGivesUp:
        return GiveUp(first_);
      case Event::kFirstEnds:
        return devices_.LetEnd(first_);
      case Event::kSecondGivesUp:
        return GiveUp(second);
      case Event::kSecondEnds:
        return devices_.LetEnd(second);
    }
  }

  std::vector<Event> CanHappen() {
    const std::size_t second = 1 - first_;
    std::vector<Event> events;
    if (devices_.CanStep(0)) events.push_back(Event::kStepOf0);
    if (devices_.CanStep(1)) events.push_back(Event::kStepOf1);
    if (!gave_up_[first_]) events.push_back(Event::kFirstGivesUp);
    if (gave_up_[first_] && !devices_.HasEnded(first_)) events.push_back(Event::kFirstEnds);
    if (gave_up_[first_] && !gave_up_[second]) events.push_back(Event::kSecondGivesUp);
    if (gave_up_[second] && !devices_.HasEnded(second)) events.push_back(Event::kSecondEnds);
    return events;
  }

  std::string State() {
    return devices_.State() + (gave_up_[0] ? "0" : "") + (gave_up_[1] ? "1" : "");
  }

  // Aborts all operations that have not ended. After this, the results of the ranks do not change.
  void Close() {
    for (auto& communicator : communicators_) {
      if (communicator) communicator->Abort("the test is over");
    }
    devices_.RunFree();
    for (auto& communicator : communicators_) communicator.reset();
  }

  bool Reduced(std::size_t rank) { return reduced_[rank]->Wait().ok(); }
  bool Confirmed(std::size_t rank) { return Reduced(rank) && confirmed_[rank]->Wait().ok(); }
  bool HoldsSums(std::size_t rank) const {
    return values_[rank] == std::array<uint64_t, 2>{1 + 2, 10 + 20};
  }

 private:
  void GiveUp(std::size_t rank) {
    gave_up_[rank] = true;
    communicators_[rank]->Abort("the world is over");
  }
  void AwaitBoth(std::size_t rank) {
    EXPECT_TRUE(Eventually([&] {
      return (reduced_[rank]->ended() && confirmed_[rank]->ended()) || devices_.WouldEnd(rank);
    }));
  }

  AbandonedConnects abandoned_connects_;
  Devices devices_;
  const std::size_t first_;
  std::array<bool, kRanks> gave_up_{};
  std::array<std::array<uint64_t, 2>, kRanks> values_{};
  std::array<std::unique_ptr<NcclCommunicator>, kRanks> communicators_;
  std::array<WorkHandle, kRanks> reduced_;
  std::array<WorkHandle, kRanks> confirmed_;
};

// Plays all sequences of events. A sequence ends at a state that was seen before.
class EveryOrder {
 public:
  EveryOrder(bool revokes, std::size_t first) : revokes_(revokes), first_(first) {
    std::vector<std::vector<Event>> open{{}};
    while (!open.empty()) {
      const std::vector<Event> events = std::move(open.back());
      open.pop_back();
      Scene scene(revokes_, first_);
      for (const Event event : events) scene.Happens(event);
      if (seen_.insert(scene.State()).second) {
        for (const Event event : scene.CanHappen()) {
          open.push_back(events);
          open.back().push_back(event);
        }
      }
      Judge(scene);
    }
  }

  int runs = 0;
  int confirmed = 0;
  int confirmed_alone = 0;  // runs in which only one rank confirmed
  int rubbish = 0;          // reductions that succeeded with wrong sums
  int wrong = 0;            // wrong reductions that were confirmed

 private:
  void Judge(Scene& scene) {
    scene.Close();
    ++runs;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      if (scene.Reduced(rank) && !scene.HoldsSums(rank)) ++rubbish;
      if (!scene.Confirmed(rank)) continue;
      ++confirmed;
      if (!scene.Confirmed(1 - rank)) ++confirmed_alone;
      if (!scene.HoldsSums(rank)) ++wrong;
    }
  }

  const bool revokes_;
  const std::size_t first_;
  std::set<std::string> seen_;
};

class ConfirmationTest : public ::testing::TestWithParam<std::pair<bool, std::size_t>> {};

TEST_P(ConfirmationTest, ARankThatIsConfirmedHasTheSumsOfAllRanksInEveryOrder) {
  const EveryOrder orders(GetParam().first, GetParam().second);

  EXPECT_EQ(orders.wrong, 0);
  EXPECT_GT(orders.confirmed, 0);
  EXPECT_GT(orders.confirmed_alone, 0) << "the other takes the step over";
  EXPECT_GT(orders.rubbish, 0) << "else nothing was to be told apart";
  RecordProperty("runs", orders.runs);
}

INSTANTIATE_TEST_SUITE_P(Ends, ConfirmationTest,
                         ::testing::Values(std::pair(true, 0), std::pair(false, 1)),
                         [](const auto& one) {
                           return std::string(one.param.first ? "Revoke" : "Abort") + "Of" +
                                  std::to_string(one.param.second);
                         });

}  // namespace
}  // namespace ringmaster::trainer
