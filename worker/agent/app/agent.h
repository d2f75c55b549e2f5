#pragma once

// The agent of one worker: connects slots.h, which decides what to do, to processes, sockets and
// the launcher. Created by agent_main.cc; runs on its io_context until it calls `on_end`.
//
//   worker_readiness.h ─► AgentReady ─► launcher_link.h ◄─► slots.h ◄─► local_peers.h (attach,
//   rank)
//                                                             └──────► rank_processes.h

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/control/tls.h"
#include "common/process/child_reaper.h"
#include "worker/agent/app/local_output.h"
#include "worker/agent/app/worker_readiness.h"
#include "worker/agent/config/config.h"
#include "worker/agent/config/credentials.h"
#include "worker/agent/host/gpu_health.h"
#include "worker/agent/host/launch_commands.h"
#include "worker/agent/host/oom_watch.h"
#include "worker/agent/host/program_signs.h"
#include "worker/agent/links/attach_peers.h"
#include "worker/agent/links/launcher_link.h"
#include "worker/agent/links/local_peers.h"
#include "worker/agent/process_table/rank_processes.h"
#include "worker/agent/slots/slots.h"

namespace ringmaster::agent {

class Agent final : private SlotActions {
 public:
  // `io` must outlive this object. Calls `on_end` once, with the exit code for the process, when
  // the ranks and the connection to the launcher have ended.
  Agent(boost::asio::io_context& io, Config config, Credentials credentials,
        std::unique_ptr<control::TlsContext> tls, std::function<void(int exit_code)> on_end);

  // Fails if the local socket cannot be created.
  Result<void> Start();

  // Asks the launcher to remove this worker's ranks, which train until then. The agent ends with
  // `exit_code` once the ranks are removed, at the latest shortly before `grace` is over.
  void Leave(const std::string& reason, std::chrono::milliseconds grace, int exit_code);

  // Returns the reason if the agent ends with kExitDeviceUnhealthy; otherwise an empty text.
  const std::string& gpu_fault() const { return gpu_fault_; }

  // Returns whether the destructor would block if a volume hangs.
  bool UsesVolumes() const { return readiness_.UsesVolumes(); }

 private:
  // SlotActions
  void SendToLauncher(const control::Message& message) override;
  void DialLauncherAgain(const std::string& reason) override;
  bool LauncherTakesOutput() const override;
  bool LauncherListens() const override;
  void SendToRank(int slot, const control::Message& message) override;
  void SendToAttach(AttachId attach, const control::Message& message) override;
  void StopAttach(AttachId attach, std::chrono::milliseconds grace) override;
  void CloseAttach(AttachId attach) override;
  Result<void> StartRank(int slot) override;
  Result<void> StartProgram(const ProgramPlace& place) override;
  void RestartRankAfter(int slot, std::chrono::milliseconds delay) override;
  void StopRank(int slot, std::chrono::milliseconds grace) override;
  void EndHangingRank(int slot, const std::string& start, const std::string& reason) override;
  std::optional<control::OutOfMemory> LackOfMemory(const ProcessEnd& end) override;
  void PrintLocally(int slot, int rank, bool is_stderr, std::string_view data) override;

  control::AgentHello Hello() const;
  bool OnWelcome(std::int64_t term);
  void OnCommandOutput(const control::CommandOutput& output);
  void OnLauncherMessage(const control::Message& message);
  void OnRefused(const std::string& reason);
  void OnLauncherUnreachable();
  std::string OnRankHello(PeerId peer, const control::RankHello& hello, int pid);
  void OnAttachHello(PeerId peer, const control::AttachHello& hello, int pid);
  void OnPeerMessage(PeerId peer, control::Message message);
  void OnPeerDisconnected(PeerId peer);
  void OnRankKilled(int slot, const std::vector<std::string>& last_lines);
  void OnRankEnd(int slot, RankEnd end);
  void OnGpus(const GpuList& gpus);
  void OnGpuTrouble(const GpuTrouble& trouble);

  void ReportReady();
  void ReportReadyIfPending();
  void ReportPositions();
  void EndIfDrained();
  void End(std::chrono::milliseconds grace, int exit_code);
  void EndWhenIdle();

  boost::asio::io_context& io_;
  const Config config_;
  const Credentials credentials_;
  const std::string nonce_;
  const std::unique_ptr<control::TlsContext> tls_;
  const std::function<void(int)> on_end_;

  ChildReaper reaper_;
  OomWatch oom_;
  LocalOutput output_;
  ProgramSigns signs_;
  const std::unique_ptr<Slots> slots_;
  RankProcesses ranks_;
  LaunchCommands commands_;
  std::map<int, PeerId> rank_peers_;  // by slot
  AttachPeers attaches_;
  LocalPeers peers_;
  LauncherLink link_;
  WorkerReadiness readiness_;

  boost::asio::steady_timer end_limit_;
  GpuHealth gpu_health_;
  std::string gpu_fault_;
  std::optional<int> leaving_;    // exit code; set once the agent has asked to leave
  std::optional<int> exit_code_;  // exit code; set once the agent ends
  bool ready_pending_ = false;    // AgentReady waits until earlier programs have ended
  bool finishing_ = false;        // ranks have ended, and the last messages are being sent
};

}  // namespace ringmaster::agent
