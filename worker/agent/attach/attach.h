#pragma once

// The process that mpirun starts for every slot. It attaches to the agent of its host and
// represents the rank. In an elastic job the agent owns the rank, and attach passes on the rank's
// output and exit code. In a direct job attach runs the program itself, below mpirun, as soon as
// the start gate opens. It is small so that it starts quickly.

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "common/control/line_connection.h"
#include "common/control/messages.h"
#include "common/process/captured_process.h"
#include "common/process/child_reaper.h"
#include "worker/agent/config/config.h"

namespace ringmaster::agent {

struct AttachOptions {
  std::string socket;  // path of the agent's socket
  control::AttachHello hello;
  std::vector<std::string> program;  // argv; empty in an elastic job
  std::string working_dir;           // for the program; empty: the current directory
  Environment variables;             // for the program only: PyTorch's variables for the rank
};

struct AttachFailure {
  int exit_code = 1;
  std::string message;
};

// Parses the command line (--cohort=N [--stay] [-- PROGRAM ARGUMENTS]) and mpirun's variables.
// Pure; `host` is used only in messages.
struct AttachArguments {
  std::optional<AttachOptions> options;
  AttachFailure failure;  // set if `options` is empty
};
AttachArguments ReadAttachArguments(const std::vector<std::string>& arguments,
                                    const Environment& environment, const std::string& host);

class Attach {
 public:
  // `io` must outlive this object.
  Attach(boost::asio::io_context& io, AttachOptions options, std::string host);

  // Runs until the rank has ended or the agent is gone. Returns the exit code of this process.
  int Run();

 private:
  void OnDialled(Result<std::shared_ptr<control::LineConnection>> dialled);
  void OnMessage(const control::Message& message);
  void OnClosed(const std::string& reason);
  void OnRankExit(const control::RankExit& exit);
  void StartProgram();
  void OnOutput(bool is_stderr, std::string_view data);
  void ReportCannotStart(const std::string& reason);
  void OnProgramEnd(ProcessEnd end, const LastLines& last_lines);
  void ReportExit(control::RankExit exit);
  void ForwardSignals();
  void End(int exit_code, const std::string& sentence);

  boost::asio::io_context& io_;
  const AttachOptions options_;
  const std::string host_;
  const std::vector<int> inherited_;  // descriptors from mpirun, which the program inherits
  std::unique_ptr<ChildReaper> reaper_;
  boost::asio::signal_set signals_;
  std::shared_ptr<control::LineConnection> connection_;
  std::shared_ptr<CapturedProcess> program_;
  control::AttachGo go_;
  bool printed_ = false;
  bool agent_lost_ = false;
  std::optional<int> exit_code_;  // set once the exit code is known; the agent may not know it yet
};

}  // namespace ringmaster::agent
