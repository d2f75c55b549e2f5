#pragma once

// The agent of one worker: wires slots.h (what to do) to processes, sockets and the launcher. Made
// by main.cc, runs on its io_context until the launcher says Shutdown or somebody asks it to leave.
//
//   sshd.h ── ready ──┐
//   preflight.h ──────┼─► AgentReady ─► launcher_link.h ◄─► slots.h ◄─► local_peers.h (attach,
//   rank) versions ─────────┘                                       └──► captured_process.h (rank
//   processes)

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/control/tls.h"
#include "worker/agent/captured_process.h"
#include "worker/agent/child_reaper.h"
#include "worker/agent/config.h"
#include "worker/agent/credentials.h"
#include "worker/agent/launcher_link.h"
#include "worker/agent/local_output.h"
#include "worker/agent/local_peers.h"
#include "worker/agent/preflight/preflight.h"
#include "worker/agent/slots.h"
#include "worker/agent/sshd.h"

namespace ringmaster::agent {

class Agent final : private SlotActions {
 public:
  // `io` outlives this. `on_end` runs once, when everything has ended, with the exit code for the
  // process.
  Agent(boost::asio::io_context& io, Config config, Credentials credentials,
        std::unique_ptr<control::TlsContext> tls, std::function<void(int exit_code)> on_end);

  // Fails when the local socket cannot be made.
  Result<void> Start();

  // The Pod is going away: tell the launcher, end the ranks within `grace`, then end with
  // `exit_code`.
  void Leave(const std::string& reason, std::chrono::milliseconds grace, int exit_code);

 private:
  struct AttachPeer {
    int pid = -1;
    int slot = 0;
  };

  // SlotActions
  void SendToLauncher(const control::Message& message) override;
  void SendToRank(int slot, const control::Message& message) override;
  void SendToAttach(AttachId attach, const control::Message& message) override;
  void StopAttach(AttachId attach, std::chrono::milliseconds grace) override;
  void CloseAttach(AttachId attach) override;
  Result<void> StartRank(int slot) override;
  void StopRank(int slot, std::chrono::milliseconds grace) override;
  void PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) override;

  control::AgentHello Hello() const;
  bool OnWelcome(std::int64_t term);
  void OnLauncherMessage(const control::Message& message);
  void OnRefused(const std::string& reason);
  std::string OnRankHello(PeerId peer, const control::RankHello& hello, int pid);
  void OnAttachHello(PeerId peer, const control::AttachHello& hello, int pid);
  void OnPeerMessage(PeerId peer, control::Message message);
  void OnPeerGone(PeerId peer);
  void OnPeerDrained(PeerId peer);
  void OnRankEnd(int slot, ProcessEnd end, const LastLines& last_lines);

  void StartSshd();
  void AskVersion();
  void ReportReady();
  void End(std::chrono::milliseconds grace, const std::string& leaving, int exit_code);
  void EndWhenIdle();

  boost::asio::io_context& io_;
  const Config config_;
  const Credentials credentials_;
  const std::string nonce_;
  const int cpus_;
  const std::unique_ptr<control::TlsContext> tls_;
  const std::function<void(int)> on_end_;

  ChildReaper reaper_;
  LocalOutput output_;
  Slots slots_;
  std::map<int, std::shared_ptr<CapturedProcess>> ranks_;  // by slot
  std::map<int, PeerId> rank_peers_;                       // by slot
  std::map<AttachId, AttachPeer> attaches_;
  LocalPeers peers_;
  LauncherLink link_;
  std::unique_ptr<Sshd> sshd_;
  std::unique_ptr<Preflight> preflight_;

  std::string address_;
  int ssh_port_ = 0;
  std::optional<std::string> sshd_fault_;
  std::optional<std::vector<control::PreflightFault>> faults_;  // nothing while preflight runs
  std::map<std::string, std::string> versions_;
  bool versions_known_ = false;
  boost::asio::steady_timer end_limit_;
  std::optional<int> exit_code_;  // set once it ends
  bool finishing_ = false;        // ranks have ended, the last messages are on their way
};

}  // namespace ringmaster::agent
