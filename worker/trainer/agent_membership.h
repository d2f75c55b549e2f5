#pragma once

// Membership from the agent that started this rank, over its unix socket
// (common/control/messages.h, "rank <-> agent"): RankHello, RankEpoch, the rendezvous store's
// relay, RankProgress, RankDone, Release.

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/control/blocking_line_client.h"
#include "worker/trainer/membership_source.h"

namespace ringmaster::trainer {

// Thread-safety: AwaitWorld, Report and Finish by one thread; the store by any.
class AgentMembership final : public MembershipSource, private Store {
 public:
  // Connects to the agent. Says nothing yet. `clock` outlives the object.
  static Result<std::unique_ptr<AgentMembership>> Connect(const std::string& socket_path, int slot,
                                                          const Clock& clock);
  ~AgentMembership() override;

  Result<World> AwaitWorld() override;
  Store& store() override { return *this; }
  void Report(const control::Progress& progress) override;
  Result<void> Finish(const control::Progress& progress) override;
  // The agent ends this rank when the launcher has judged who failed; waits for that as long as the
  // agent is there, at most 10 s.
  void Broken(const std::string& reason) override;

 private:
  AgentMembership(std::unique_ptr<control::BlockingLineClient> client, int slot,
                  const Clock& clock);

  Result<void> Set(const std::string& key, const std::string& value) override;
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override;

  void Read(const std::stop_token& stop);
  void Take(control::Message message);
  Result<void> Send(const control::Message& message);

  // Constant.
  const std::unique_ptr<control::BlockingLineClient> client_;
  const int slot_;
  const Clock& clock_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<control::RankEpoch> epoch_;  // the newest the agent sent
  std::optional<control::Epoch> released_;
  std::optional<Error> lost_;                            // why the connection ended
  std::map<int64_t, std::vector<std::string>> answers_;  // store answers not yet taken, by id
  int64_t next_id_ = 1;

  // Of the calling thread.
  bool greeted_ = false;
  std::optional<Clock::Time> last_report_;

  std::jthread reader_;  // last member: it ends first
};

}  // namespace ringmaster::trainer
