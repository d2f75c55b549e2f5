// Implements SlotActions with processes and messages.

#include <csignal>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/control/master_port.h"
#include "worker/agent/app/agent.h"
#include "worker/agent/host/address.h"
#include "worker/agent/process_table/stack_text.h"

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMaxQueuedOutput = 1 << 20;  // limit on bytes queued for the launcher

}  // namespace

void Agent::SendToLauncher(const control::Message& message) { link_.Send(message); }

void Agent::DialLauncherAgain(const std::string& reason) { link_.DialAgain(reason); }

bool Agent::LauncherTakesOutput() const {
  return LauncherListens() && link_.QueuedBytes() < kMaxQueuedOutput;
}

bool Agent::LauncherListens() const { return link_.welcomed(); }

void Agent::OnCommandOutput(const control::CommandOutput& output) {
  link_.Send(output);
  if (link_.QueuedBytes() >= kMaxQueuedOutput) commands_.PauseOutput(true);
}

void Agent::SendToRank(int slot, const control::Message& message) {
  const auto peer = rank_peers_.find(slot);
  if (peer != rank_peers_.end()) peers_.Send(peer->second, message);
}

void Agent::SendToAttach(AttachId attach, const control::Message& message) {
  peers_.Send(attach, message);
  attaches_.OnQueued(attach, peers_.QueuedBytes(attach));
}

void Agent::StopAttach(AttachId attach, std::chrono::milliseconds grace) {
  if (!attaches_.Contains(attach)) return;
  kill(attaches_.Pid(attach), SIGTERM);
  const auto limit = std::make_shared<boost::asio::steady_timer>(io_, grace);
  limit->async_wait([this, limit, attach](const boost::system::error_code& cancelled) {
    // attach is still connected, so its pid has not been reused.
    if (!cancelled && attaches_.Contains(attach)) kill(attaches_.Pid(attach), SIGKILL);
  });
}

void Agent::CloseAttach(AttachId attach) {
  attaches_.Remove(attach);
  peers_.Close(attach, "its launcher was lost");
}

Result<void> Agent::StartRank(int slot) { return ranks_.Start(slot); }

// Fails if MASTER_PORT is in use, which may happen if the Pod uses the node's network.
Result<void> Agent::StartProgram(const ProgramPlace& place) {
  const int port = control::MasterPortOf(config_.job_uid, place.epoch);
  if (place.rank == 0 && !PortIsFree(port)) {
    return Error{ErrorKind::kUnavailable,
                 "port " + std::to_string(port) +
                     " (MASTER_PORT) is in use on this host; the next start uses another port"};
  }
  return ranks_.Start(place, port);
}

void Agent::RestartRankAfter(int slot, std::chrono::milliseconds delay) {
  ranks_.CallAfter(slot, delay);
}

void Agent::StopRank(int slot, std::chrono::milliseconds grace) { ranks_.Stop(slot, grace); }

void Agent::EndHangingRank(int slot, const std::string& start, const std::string& reason) {
  ranks_.EndHanging(slot, [this, slot, start, reason](const std::string& stack) {
    LogWarn("Stopping a rank that hangs", {{"slot", slot}, {"reason", reason}, {"stack", stack}});
    link_.Send(control::RankStack{slot, start, reason, Shortened(stack, control::kMaxStackBytes)});
  });
}

std::optional<control::OutOfMemory> Agent::LackOfMemory(const ProcessEnd& end) {
  return oom_.Explain(end, std::chrono::steady_clock::now());
}

void Agent::PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) {
  output_.Print(slot, rank, is_stderr, data);
  signs_.Printed(std::chrono::steady_clock::now(), slot);
}

}  // namespace ringmaster::agent
