// Trains on 4 hosts with 8 fake GPUs each, while a random schedule kills ranks and whole hosts,
// hangs GPUs, loses devices, and lets ranks leave and join, also while a world forms. The test is
// the launcher. Afterwards the parameters equal those of a single rank bit for bit, and the audit
// of all logs finds no step lost or repeated.
//
// RINGMASTER_SEEDS is the number of schedules, RINGMASTER_SEED the first seed.

#include <algorithm>
#include <array>
#include <iostream>
#include <list>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/number_from.h"
#include "tests/fakes/patience.h"
#include "tests/unit/trainer/audited.h"
#include "tests/unit/trainer/comm/nccl/fake_gpus.h"
#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "worker/trainer/comm/nccl/nccl_communicator.h"

namespace ringmaster::trainer {
namespace {

constexpr int kHosts = 4;
constexpr int kGpusPerHost = 8;
constexpr std::size_t kFewestRanks = 3;
constexpr int64_t kScheduleSteps = 40;
constexpr int kEvents = 6;
constexpr int64_t kScheduleBatch = 32;  // a sample for each rank of the largest world
// With a new communicator for each world; with shrink; with revoke; with grow.
constexpr std::array kVersions{22304, 22703, 22809, 23007};

// The largest step that a rank has begun.
class FurthestStep {
 public:
  void Reach(int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = std::max(step_, step);
    changed_.notify_all();
  }
  bool Await(int64_t step) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, FakeLauncher::kLimit, [&] { return step_ >= step; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t step_ = 0;
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed)
      : random_(seed), version_(kVersions.at(Below(kVersions.size()))), gpus_(seed) {
    launcher_.HoldRelease(true);
    launcher_.SetAnnouncementDelay(std::chrono::microseconds(Below(1000)));
  }
  ~Schedule() { launcher_.Close(); }  // ends the ranks before they are joined

  void Run() {
    for (int host = 0; host < kHosts; ++host) {
      for (int gpu = 0; gpu < kGpusPerHost; ++gpu) world_.push_back(&Start(host));
    }
    Form();
    for (int event = 1; event <= kEvents && !::testing::Test::HasFailure(); ++event) {
      const auto after = kScheduleSteps * event / (kEvents + 1) - static_cast<int64_t>(Below(3));
      ASSERT_TRUE(step_.Await(after)) << "no rank reached step " << after;
      Disturb();
    }
    launcher_.HoldRelease(false);
    if (!::testing::Test::HasFailure()) ExpectFinished();
  }

 private:
  struct Rank {
    std::string name{};
    int host = 0;
    FakeGpu* gpu = nullptr;
    std::shared_ptr<NcclRuntime> runtime{};
    std::atomic<int64_t> entered = 0;  // the number of the last world that it entered
    std::unique_ptr<ElasticRank> trainer{};
  };

  static int64_t Entered(const Rank* rank) { return rank->entered; }
  std::size_t Below(std::size_t limit) { return random_() % limit; }
  bool Coin() { return Below(2) == 0; }
  void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(Below(30))); }

  Rank& Start(int host) {
    Rank& rank = ranks_.emplace_back();
    rank.name = "host" + std::to_string(host) + "-" + std::to_string(ranks_.size());
    rank.host = host;
    rank.gpu = &gpus_.Make();
    rank.runtime = std::make_shared<NcclRuntime>(
        rank.gpu->Nccl(version_), rank.gpu->Device(),
        NcclRuntime::Options{.abort_limit = kAbortLimit * Patience(),
                             .end_process = [name = rank.name, gpu = rank.gpu](const auto& what) {
                               ADD_FAILURE() << name << ": " << what << " took too long";
                               gpu->Kill(/*noticed=*/false);
                             }});
    RankScript script{.at = [this](int64_t step) { step_.Reach(step); },
                      .timeout = kRankTimeout * Patience(),
                      .global_batch = kScheduleBatch};
    script.entered = [&rank](const World& world) { rank.entered = world.epoch.number; };
    script.communicators = [runtime = rank.runtime](AbandonedConnects& abandoned_connects) {
      return [runtime, &abandoned_connects](
                 const World& world, Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
        if (Result<void> room = abandoned_connects.Room(); !room.ok()) return room.error();
        return std::unique_ptr<Communicator>(
            new NcclCommunicator(runtime, world, deadline, abandoned_connects));
      };
    };
    script.on_gradient_memory = [gpu = rank.gpu](std::span<const std::byte> memory) {
      gpu->Own(memory);
    };
    rank.trainer =
        std::make_unique<ElasticRank>(launcher_, rank.name, folder_.path(), kScheduleSteps, script);
    return rank;
  }

  FakeLauncher::Names Names(const std::vector<Rank*>& ranks) const {
    FakeLauncher::Names names;
    for (const Rank* rank : ranks) names.push_back(rank->name);
    return names;
  }
  void Form() {
    if (Below(4) == 0) std::ranges::shuffle(world_, random_);  // then NCCL cannot shrink or grow
    launcher_.Form(Names(world_));
  }

  // Takes ranks from the world: one, several, or all of a host. Spares one rank that has the newest
  // state, because training cannot continue without it.
  std::vector<Rank*> TakeVictims() {
    const int64_t newest = (*std::ranges::max_element(world_, {}, &Entered))->entered;
    std::vector<Rank*> with_state = world_;
    std::erase_if(with_state, [newest](Rank* rank) { return rank->entered != newest; });
    const Rank* const spared = with_state[Below(with_state.size())];
    const std::size_t most = world_.size() - kFewestRanks;
    std::vector<Rank*> victims;
    const int host = world_[Below(world_.size())]->host;
    const bool whole_host = Coin();
    const std::size_t count = std::min<std::size_t>(1 + Below(3), most);
    std::vector<Rank*> order = world_;
    std::ranges::shuffle(order, random_);
    for (Rank* rank : order) {
      const bool chosen = whole_host ? rank->host == host : victims.size() < count;
      if (chosen && rank != spared && victims.size() < most) victims.push_back(rank);
    }
    std::erase_if(world_,
                  [&](Rank* rank) { return std::ranges::find(victims, rank) != victims.end(); });
    return victims;
  }

  // Starts ranks until all GPUs are used, and waits until they are ready to join.
  void AddJoiners() {
    std::vector<Rank*> joiners;
    for (int host = 0; host < kHosts; ++host) {
      const auto used = std::ranges::count(world_, host, &Rank::host);
      for (auto gpu = used; gpu < kGpusPerHost; ++gpu) joiners.push_back(&Start(host));
    }
    launcher_.AwaitWaiting(Names(joiners));
    // A grow needs the old ranks first, in their order.
    const auto at =
        Coin() ? world_.end() : world_.begin() + static_cast<long>(Below(world_.size()));
    world_.insert(at, joiners.begin(), joiners.end());
  }

  void Disturb() {
    switch (Below(7)) {
      case 0: {  // ranks are killed; some of their peers may notice it before the launcher does
        for (Rank* victim : TakeVictims()) victim->gpu->Kill(/*noticed=*/Coin());
        Pause();
        return Form();
      }
      case 1: {  // GPUs hang until the launcher has their processes killed
        const std::vector<Rank*> victims = TakeVictims();
        for (Rank* victim : victims) victim->gpu->Hang();
        Pause();
        for (Rank* victim : victims) victim->gpu->Kill(/*noticed=*/Coin());
        return Form();
      }
      case 2: {  // devices fail; their processes report that
        const std::vector<Rank*> victims = TakeVictims();
        for (Rank* victim : victims) victim->gpu->Kill(/*noticed=*/false);
        launcher_.AwaitBrokenOrDone(Names(victims));
        return Form();
      }
      case 3: {  // ranks leave at a boundary
        const FakeLauncher::Names all = Names(world_);
        launcher_.Switch(Names(TakeVictims()));
        launcher_.AwaitBoundary(all);
        return Form();
      }
      case 4: {  // ranks join at a boundary
        const FakeLauncher::Names all = Names(world_);
        AddJoiners();
        launcher_.Switch();
        launcher_.AwaitBoundary(all);
        return Form();
      }
      case 5:  // the launcher gives up a world without a fault
        return Form();
      default: {  // ranks join after a fault, and others are killed while that world forms
        for (Rank* victim : TakeVictims()) victim->gpu->Kill(/*noticed=*/Coin());
        AddJoiners();
        Form();
        Pause();
        for (Rank* victim : TakeVictims()) victim->gpu->Kill(/*noticed=*/Coin());
        return Form();
      }
    }
  }

  void ExpectFinished() {
    const std::vector<float> alone = TrainAlone(kScheduleSteps, kScheduleBatch);
    for (Rank* rank : world_) {
      const Result<RunSummary>& summary = rank->trainer->Await();
      ASSERT_TRUE(summary.ok()) << rank->name << ": " << summary.error().message;
      EXPECT_EQ(summary->steps, kScheduleSteps);
      EXPECT_EQ(rank->trainer->state(), alone) << rank->name;
    }
    launcher_.Close();
    for (Rank& rank : ranks_) rank.trainer->Await();
    const audit::Report report = AuditLogsIn(folder_.path(), kScheduleSteps);
    EXPECT_EQ(audit::ExitCodeOf(report.findings), audit::kExitClean);
    EXPECT_THAT(report.findings.sentences, ::testing::IsEmpty());
  }

  std::mt19937_64 random_;
  const int version_;
  FakeGpus gpus_;
  FakeLauncher launcher_;
  const TemporaryFolder folder_;
  FurthestStep step_;
  std::list<Rank> ranks_;
  std::vector<Rank*> world_;  // by rank
};

TEST(GpuSchedules, KillsHangsAndLostDevicesCostNoStep) {
  const int64_t first = NumberFrom("RINGMASTER_SEED", 1);
  const int64_t count = NumberFrom("RINGMASTER_SEEDS", 4);
  for (int64_t seed = first; seed < first + count; ++seed) {
    std::cerr << "RINGMASTER_SEED=" << seed << std::endl;  // also if the schedule crashes
    Schedule(static_cast<uint64_t>(seed)).Run();
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace ringmaster::trainer
