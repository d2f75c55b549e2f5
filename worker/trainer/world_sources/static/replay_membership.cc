#include "worker/trainer/world_sources/static/replay_membership.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace ringmaster::trainer {
namespace {

// A view of a store that adds a prefix to all keys.
class StoreOfRun final : public Store {
 public:
  StoreOfRun(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Result<void> Set(const std::string& key, const std::string& value) override {
    return store_->Set(prefix_ + key, value);
  }
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override {
    std::vector<std::string> prefixed;
    prefixed.reserve(keys.size());
    for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
    return store_->Get(prefixed, deadline);
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::string prefix_;
};

std::string StepsOf(const ScheduledRun& run) {
  return "steps " + std::to_string(run.first) + " to " + std::to_string(run.last);
}

class ReplayMembership final : public MembershipSource {
 public:
  ReplayMembership(MembershipSchedule schedule, ReplayOptions options, std::shared_ptr<Store> store)
      : schedule_(std::move(schedule)), options_(std::move(options)), store_(std::move(store)) {}

  Result<World> AwaitWorld(control::Epoch after) override {
    if (after != left_) {
      return Error{ErrorKind::kUnavailable,
                   "the replay cannot continue: " +
                       broken_.value_or("the world ended before its last recorded step")};
    }
    for (const ScheduledRun& run : schedule_.runs) {
      if (!(after < run.epoch)) continue;
      const auto place = std::find(run.members.begin(), run.members.end(), Self());
      if (place != run.members.end()) {
        return Enter(run, static_cast<int>(place - run.members.begin()));
      }
    }
    done_ = true;
    return Error{ErrorKind::kNotFound, "the schedule has no more steps for " + Self()};
  }
  bool Done() const override { return done_; }

  void Watch(control::Epoch, OverCallback) override {}
  void Unwatch() override {}

  bool SwitchWanted(control::Epoch epoch, int64_t step) override {
    const auto run = std::find_if(schedule_.runs.begin(), schedule_.runs.end(),
                                  [&](const ScheduledRun& other) { return other.epoch == epoch; });
    return run != schedule_.runs.end() && step == run->last && step < options_.job_steps;
  }

  void Broken(const World&, int, const std::string& reason) override { broken_ = reason; }
  void AtBoundary(const World& world, int64_t) override { left_ = world.epoch; }
  void Report(const World&, const control::Progress&) override {}
  Result<bool> Finish(const World&, const control::Progress&) override { return true; }

 private:
  const std::string& Self() const { return schedule_.members[options_.member]; }

  // Waits until all members of the run are present. A member that is not in the previous run waits
  // here until the other members have completed that run.
  Result<World> Enter(const ScheduledRun& run, int rank) {
    World world;
    world.epoch = run.epoch;
    world.rank = rank;
    world.size = static_cast<int>(run.members.size());
    world.full_size = run.full_size;
    world.ranks_on_host = world.size;
    world.local_rank = rank;
    world.one_machine = true;
    world.address = options_.address;
    world.members = run.members;
    world.store =
        std::make_shared<StoreOfRun>(store_, "from-step-" + std::to_string(run.first) + "/");
    std::vector<std::string> all;
    for (int other = 0; other < world.size; ++other) all.push_back("here/" + std::to_string(other));
    const Result<void> said = world.store->Set(all[static_cast<std::size_t>(rank)], Self());
    if (!said.ok()) return said.error();
    for (;;) {
      const auto found =
          world.store->Get(all, std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (found.ok()) return world;
      if (found.error().kind != ErrorKind::kTimeout) {
        return found.error().WithContext("waiting for the members of " + StepsOf(run));
      }
    }
  }

  const MembershipSchedule schedule_;
  const ReplayOptions options_;
  const std::shared_ptr<Store> store_;

  control::Epoch left_;                // the newest world that ended after its planned steps
  std::optional<std::string> broken_;  // why a world ended early
  bool done_ = false;                  // whether this member has taken part in all its runs
};

}  // namespace

std::unique_ptr<MembershipSource> MakeReplayMembership(MembershipSchedule schedule,
                                                       ReplayOptions options,
                                                       std::shared_ptr<Store> store) {
  return std::make_unique<ReplayMembership>(std::move(schedule), std::move(options),
                                            std::move(store));
}

}  // namespace ringmaster::trainer
