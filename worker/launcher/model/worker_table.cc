#include "worker/launcher/model/worker_table.h"

#include <charconv>
#include <csignal>

namespace ringmaster::launcher {
namespace {

// Returns the number in a Member::start of the agent with this nonce; 0: there is none.
int64_t NumberOf(const std::string& nonce, const std::string& start) {
  int64_t number = 0;
  if (start.starts_with(nonce + '-')) {
    std::from_chars(start.data() + nonce.size() + 1, start.data() + start.size(), number);
  }
  return number;
}

}  // namespace

bool Process::NoteEnd(const std::string& nonce, const std::string& start) {
  if (exit && exit->start == start) return false;
  const int64_t number = NumberOf(nonce, start);
  if (number > 0 && number <= last_end) return false;
  if (number > 0) last_end = number;
  return true;
}

bool Worker::MayHaveEnded(const control::RankExit& exit, Time since) const {
  return exit.signal == SIGTERM && (leaving || welcomed_at > since);
}

void Worker::Fence() {
  if (Fenced()) return;
  standing = Silent() ? Standing::kFencedInSilence : Standing::kFenced;
}

bool Worker::IsReady() const {
  return connection && ready && ready->faults.empty() && !leaving && !Fenced();
}

bool Worker::IsFilling() const { return connection && filling && !ready && !leaving && !Fenced(); }

const Worker* WorkerTable::Find(const std::string& pod_uid) const {
  const auto found = workers_.find(pod_uid);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::Find(const std::string& pod_uid) {
  const auto found = workers_.find(pod_uid);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::ByConnection(ConnectionId connection) {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : &workers_.at(found->second);
}

void WorkerTable::Connect(Worker& worker, ConnectionId connection) {
  // An agent that reconnects replaces its previous connection.
  if (worker.connection) connections_.erase(*worker.connection);
  worker.connection = connection;
  connections_[connection] = worker.hello.pod_uid;
}

void WorkerTable::Disconnect(Clock::Time now, Worker& worker) {
  connections_.erase(*worker.connection);
  worker.connection.reset();
  worker.ready.reset();
  worker.disconnected_at = now;
}

}  // namespace ringmaster::launcher
