#pragma once

// A fake of launcher and agents for tests whose ranks are threads with a FakeMembership. The test
// chooses which worlds form. Every wait of a test ends with its event, or fails after kLimit.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/trainer/memory_store.h"
#include "worker/trainer/elastic/membership_source.h"

namespace ringmaster::trainer {

// Thread-safe.
class FakeLauncher {
 public:
  static constexpr std::chrono::seconds kLimit{60};
  using Names = std::vector<std::string>;

  // Ends the current world; its ranks then wait for the next one.
  void Prepare() {
    std::unique_lock lock(mutex_);
    if (world_.store) std::static_pointer_cast<MemoryStore>(world_.store)->End();
    below_ = {.term = 1, .number = world_.epoch.number + 1};
    TellWatchers(lock);
  }

  // Sets whether the ranks of future worlds are on one machine.
  void SetOneMachine(bool one) {
    const std::lock_guard lock(mutex_);
    one_machine_ = one;
  }

  // Sets the time that passes from one rank's learning that its world is over to the next one's.
  void SetAnnouncementDelay(std::chrono::microseconds delay) { announcement_delay_ = delay; }

  // Starts the next world, with `names` by rank. A name without a rank never joins.
  std::shared_ptr<Store> Form(const Names& names) {
    Prepare();
    std::unique_lock lock(mutex_);
    world_.epoch = {.term = 1, .number = world_.epoch.number + 1};
    world_.size = static_cast<int>(names.size());
    world_.full_size = std::max(world_.full_size, world_.size);  // the job wants lost ranks back
    world_.ranks_on_host = world_.workers = world_.size;
    world_.one_machine = one_machine_;
    world_.store = std::make_shared<MemoryStore>();
    names_ = names;
    world_.members.clear();
    for (const std::string& name : names) world_.members.push_back(name + "/0/1");
    done_.clear();
    switching_ = false;
    leaving_.clear();
    boundary_.clear();
    broken_.clear();
    changed_.notify_all();
    return world_.store;
  }

  // Asks the ranks of the current world to leave it at a boundary, and informs the ranks of
  // `leaving` that they will not be in the next world.
  void Switch(const Names& leaving = {}) {
    const std::lock_guard lock(mutex_);
    switching_ = true;
    leaving_ = {leaving.begin(), leaving.end()};
    changed_.notify_all();
  }

  // Ends the ranks that wait for a world: no further world will come.
  void Close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    TellWatchers(lock);
  }

  // Sets whether the release of ranks is delayed after all of them are done.
  void HoldRelease(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
    changed_.notify_all();
  }

  // Wait until these ranks are in the named state. AwaitBoundary() returns the boundary's step.
  void AwaitBroken(const Names& names) {
    Await("broken", [&] { return Contains(broken_, names); });
  }
  void AwaitBrokenOrDone(const Names& names) {
    Await("broken or done", [&] {
      return std::ranges::all_of(names, [&](const std::string& name) {
        return broken_.contains(name) || done_.contains(name);
      });
    });
  }
  // Returns the peer that a broken rank reported as lost.
  int LostPeerOf(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return broken_.at(name);
  }
  void AwaitWaiting(const Names& names) {
    Await("waiting for a world", [&] { return Contains(waiting_, names); });
  }
  void AwaitDone(const Names& names) {
    Await("done", [&] { return Contains(done_, names); });
  }
  int64_t AwaitBoundary(const Names& names) {
    Await("at the boundary", [&] { return boundary_.size() == names.size(); });
    const std::lock_guard lock(mutex_);
    for (const std::string& name : names) EXPECT_EQ(boundary_[name], boundary_.begin()->second);
    return boundary_.begin()->second;
  }
  // Waits until a rank reports a fault of `what`; if `holds` is false, until the fault has ended.
  void AwaitFault(const std::string& what, bool holds = true) {
    Await("without a fault", [&] { return faults_.contains(what) == holds; });
  }
  // Returns the checkpoint from which the newest of the worlds that used one resumed.
  std::optional<control::KeptCheckpoint> kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }
  // Returns the last report of a rank 0 about the beginning of its world.
  std::optional<Beginning> beginning() {
    const std::lock_guard lock(mutex_);
    return beginning_;
  }
  bool nothing_trained() {
    const std::lock_guard lock(mutex_);
    return nothing_trained_;
  }
  std::vector<std::pair<control::Epoch, int64_t>> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

  std::unique_ptr<MembershipSource> Member(const std::string& name);

 private:
  friend class FakeMembership;
  struct Watch {
    control::Epoch epoch;
    MembershipSource::OverCallback over;
  };

  template <typename Set>
  static bool Contains(const Set& set, const Names& names) {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return set.contains(name); });
  }
  void Await(const char* what, const std::function<bool()>& happened) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLimit, happened)) return;
    closed_ = true;  // otherwise threads that wait for the ranks would block forever
    changed_.notify_all();
    FAIL() << "nobody was " << what;
  }
  bool Over(control::Epoch epoch) const {
    return closed_ || epoch < below_ || epoch < world_.epoch;
  }
  bool Released() const { return !hold_ && done_.size() == names_.size(); }
  // Runs the callbacks under watch_mutex_, because Unwatch() waits for them.
  void TellWatchers(std::unique_lock<std::mutex>& lock) {
    changed_.notify_all();
    lock.unlock();
    const std::lock_guard watching(watch_mutex_);
    for (auto it = watches_.begin(); it != watches_.end();) {
      lock.lock();
      const bool over = Over(it->second.epoch);
      lock.unlock();
      if (over) {
        std::this_thread::sleep_for(announcement_delay_);
        it->second.over("the world was given up");
      }
      it = over ? watches_.erase(it) : std::next(it);
    }
    lock.lock();
  }

  std::chrono::microseconds announcement_delay_{0};  // constant once ranks watch
  std::mutex watch_mutex_;
  std::map<std::string, Watch> watches_;  // guarded by watch_mutex_

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  World world_;
  bool one_machine_ = true;
  Names names_;
  control::Epoch below_;
  bool switching_ = false;
  bool closed_ = false;
  bool hold_ = false;
  std::set<std::string> leaving_;
  std::set<std::string> waiting_, done_;
  std::map<std::string, int> broken_;  // by rank: the peer that the rank reported
  std::map<std::string, int64_t> boundary_;
  std::vector<std::pair<control::Epoch, int64_t>> reports_;
  std::map<std::string, std::set<std::string>> faults_;  // by fault: the ranks that have the fault
  std::optional<Beginning> beginning_;
  std::optional<control::KeptCheckpoint> kept_;
  bool nothing_trained_ = false;
};

class FakeMembership final : public MembershipSource {
 public:
  FakeMembership(FakeLauncher& launcher, std::string name)
      : launcher_(launcher), name_(std::move(name)) {}

  Result<World> AwaitWorld(control::Epoch after) override {
    std::unique_lock lock(launcher_.mutex_);
    const auto place = [&] {
      return std::find(launcher_.names_.begin(), launcher_.names_.end(), name_);
    };
    const auto ready = [&] {
      return after < launcher_.world_.epoch && !(launcher_.world_.epoch < launcher_.below_) &&
             place() != launcher_.names_.end();
    };
    launcher_.waiting_.insert(name_);
    launcher_.changed_.notify_all();
    launcher_.changed_.wait(lock, [&] { return launcher_.closed_ || ready(); });
    launcher_.waiting_.erase(name_);
    if (launcher_.closed_) return Error{ErrorKind::kUnavailable, "the launcher closed"};
    World world = launcher_.world_;
    world.rank = static_cast<int>(place() - launcher_.names_.begin());
    return world;
  }

  void Watch(control::Epoch epoch, OverCallback over) override {
    std::unique_lock lock(launcher_.mutex_);
    lock.unlock();
    {
      const std::lock_guard watching(launcher_.watch_mutex_);
      launcher_.watches_[name_] = {epoch, std::move(over)};
    }
    lock.lock();
    launcher_.TellWatchers(lock);
  }
  void Unwatch() override {
    const std::lock_guard watching(launcher_.watch_mutex_);
    launcher_.watches_.erase(name_);
  }

  bool SwitchWanted(control::Epoch epoch, int64_t) override {
    const std::lock_guard lock(launcher_.mutex_);
    return launcher_.switching_ && launcher_.world_.epoch == epoch;
  }
  bool Leaving(control::Epoch epoch) override {
    const std::lock_guard lock(launcher_.mutex_);
    return launcher_.world_.epoch == epoch && launcher_.leaving_.contains(name_);
  }
  void Broken(const World& world, int peer, const std::string&) override {
    const std::lock_guard lock(launcher_.mutex_);
    if (world.epoch == launcher_.world_.epoch) launcher_.broken_[name_] = peer;
    launcher_.changed_.notify_all();
  }
  void AtBoundary(const World&, int64_t step) override {
    const std::lock_guard lock(launcher_.mutex_);
    launcher_.boundary_[name_] = step;
    launcher_.changed_.notify_all();
  }
  void Report(const World& world, const control::Progress& progress) override {
    const std::lock_guard lock(launcher_.mutex_);
    launcher_.reports_.emplace_back(world.epoch, progress.step);
  }
  void Unprotected(const std::string& what, const std::string& reason) override {
    const std::lock_guard lock(launcher_.mutex_);
    if (reason.empty()) {
      launcher_.faults_[what].erase(name_);
      if (launcher_.faults_[what].empty()) launcher_.faults_.erase(what);
    } else {
      launcher_.faults_[what].insert(name_);
    }
    launcher_.changed_.notify_all();
  }
  void Began(const World&, const Beginning& beginning) override {
    const std::lock_guard lock(launcher_.mutex_);
    if (!beginning.text.empty()) launcher_.beginning_ = beginning;
    if (beginning.kept) launcher_.kept_ = beginning.kept;
  }
  void NothingTrained() override {
    const std::lock_guard lock(launcher_.mutex_);
    launcher_.nothing_trained_ = true;
  }
  Result<bool> Finish(const World& world, const control::Progress& progress) override {
    std::unique_lock lock(launcher_.mutex_);
    if (world.epoch == launcher_.world_.epoch) launcher_.done_.insert(name_);
    launcher_.changed_.notify_all();
    bool told = false;
    for (;;) {
      const bool current = world.epoch == launcher_.world_.epoch;
      if (current && launcher_.Released()) return true;
      if (launcher_.closed_) return Error{ErrorKind::kUnavailable, "the launcher closed"};
      if (launcher_.Over(world.epoch)) return false;
      if (launcher_.switching_ && !told) {
        launcher_.boundary_[name_] = progress.step;
        launcher_.changed_.notify_all();
        told = true;
      }
      launcher_.changed_.wait(lock);
    }
  }

 private:
  FakeLauncher& launcher_;
  const std::string name_;
};

inline std::unique_ptr<MembershipSource> FakeLauncher::Member(const std::string& name) {
  return std::make_unique<FakeMembership>(*this, name);
}

}  // namespace ringmaster::trainer
