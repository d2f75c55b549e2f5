#include "worker/launcher/app/launcher.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/log.h"
#include "common/base/user_entry.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "common/control/reasons.h"
#include "common/control/secrets.h"
#include "common/process/child_reaper.h"
#include "worker/launcher/app/port_probe.h"
#include "worker/launcher/coordinator/coordinator.h"
#include "worker/launcher/model/coordinator_options.h"
#include "worker/launcher/mpi/host_files.h"
#include "worker/launcher/mpi/mpirun_runner.h"
#include "worker/launcher/mpi/tagged_output.h"
#include "worker/launcher/server/agent_connections.h"
#include "worker/launcher/server/api_server.h"
#include "worker/launcher/server/remote_shells.h"

namespace ringmaster::launcher {
namespace {

using boost::system::error_code;
using Items = std::map<std::string, std::string>;

constexpr std::chrono::seconds kEndLimit{4};
constexpr std::chrono::seconds kVersionLimit{10};

class Launcher {
 public:
  Launcher(const Config& config, const Clock& clock, const Items& items,
           std::unique_ptr<control::TlsContext> tls)
      : config_(config),
        clock_(clock),
        tls_(std::move(tls)),
        coordinator_(OptionsFrom(config, items.at(control::kItemAgentToken))),
        operator_token_(items.at(control::kItemOperatorToken)),
        reaper_(io_),
        mpirun_(reaper_, config, config.runtime_dir + "/ssh_user_key",
                items.at(control::kItemSshHostPublicKey),
                [this](int64_t cohort, const MpirunExit& exit) {
                  // Report the exit later, because mpirun_.Start() may call this handler.
                  boost::asio::post(io_, [this, cohort, exit] {
                    if (!mpirun_.running()) shells_.End();
                    Apply(coordinator_.OnMpirunExited(clock_.Now(), cohort, exit));
                  });
                }),
        agents_(clock, {[this](ConnectionId id, const auto& hello) { OnHello(id, hello); },
                        [this](ConnectionId id, const auto& message) { OnMessage(id, message); },
                        [this](ConnectionId id, bool greeted) { OnClosed(id, greeted); }}),
        shells_([this](ConnectionId id, const auto& message) { agents_.Send(id, message); }),
        probe_(io_),
        signals_(io_, SIGTERM, SIGINT),
        ticker_(io_),
        end_timer_(io_) {}

  int Run() {
    signals_.async_wait([this](const error_code& stopped, int) {
      if (!stopped) Terminate();
    });
    if (Result<void> listening = Listen(); !listening.ok()) {
      Apply(coordinator_.OnOwnFailure(clock_.Now(), control::kReasonLauncherError,
                                      listening.error().message));
    } else if (config_.spec.PerWorker()) {
      StartByAgents("one process per worker");
    } else {
      mpirun_.Probe(kVersionLimit, [this](Result<MpiVersion> version) { OnVersion(version); });
    }
    io_.run();
    return exit_code_;
  }

 private:
  Result<void> Listen() {
    if (Result<void> agents = agents_.Listen(io_, config_.control_port, *tls_); !agents.ok()) {
      return agents;
    }
    if (Result<void> shells = shells_.Listen(io_, config_.RshSocket()); !shells.ok()) return shells;
    ApiOptions options;
    options.operator_token = operator_token_;
    ApiHandlers handlers;
    handlers.on_order = [this](const control::Order& order) { return OnOrder(order); };
    handlers.status = [this] { return coordinator_.Status(clock_.Now()); };
    handlers.metrics = [this] {
      JobTimes times = coordinator_.Times(clock_.Now());
      times.job = config_.job;
      return MetricsText(times);
    };
    auto api = StartApiServer(io_, "::", config_.api_port, *tls_, options, handlers);
    if (!api.ok()) api = StartApiServer(io_, "0.0.0.0", config_.api_port, *tls_, options, handlers);
    if (!api.ok()) return api.error();
    api_ = std::move(*api);
    LogInfo("Started the launcher", {{"job", config_.job},
                                     {"term", config_.term},
                                     {"control_port", agents_.port()},
                                     {"api_port", api_->port()}});
    return {};
  }

  void OnVersion(const Result<MpiVersion>& version) {
    if (ending_) return;
    const bool none = !version.ok() && version.error().kind == ErrorKind::kNotFound;
    const bool another = !version.ok() && version.error().kind == ErrorKind::kInvalid;
    if ((none || another) && !config_.spec.AsksForMpirun()) {
      return StartByAgents(version.error().message);
    }
    if (!version.ok()) {
      const std::string& found = version.error().message;
      return Apply(coordinator_.OnOwnFailure(
          clock_.Now(), control::kReasonMpirunFailed,
          none ? "spec.mpi is set, but " + found +
                     "; use an image with Open MPI 4 or 5, or remove spec.mpi"
               : found));
    }
    if (UserName(::geteuid()).empty() && !config_.spec.AsksForMpirun()) {
      return StartByAgents("mpirun and ssh require a user name, but uid " +
                           std::to_string(::geteuid()) + " has none in this image");
    }
    LogInfo("Found mpirun", {{"version", version->version}});
    Apply(coordinator_.OnMpiVersion(clock_.Now(), version->version));
    Tick();
  }

  void StartByAgents(const std::string& reason) {
    LogInfo("The agents start the ranks", {{"reason", reason}});
    Apply(coordinator_.OnNoMpirun(clock_.Now()));
    Tick();
  }

  Result<void> OnOrder(const control::Order& order) {
    auto actions = coordinator_.OnOrder(clock_.Now(), order);
    if (!actions.ok()) return actions.error();
    Apply(std::move(*actions));
    return {};
  }

  void OnHello(ConnectionId id, const control::AgentHello& hello) {
    Actions actions = coordinator_.OnHello(clock_.Now(), id, hello);
    if (Accepts(actions, id)) agents_.Admit(id);
    Apply(std::move(actions));
    SettleSoon();
  }

  void OnMessage(ConnectionId id, const control::Message& message) {
    if (shells_.OnMessage(id, message)) return;
    Apply(coordinator_.OnMessage(clock_.Now(), id, message));
    SettleSoon();
  }

  // Posts one call of Settle() for all events that arrive before the call runs.
  void SettleSoon() {
    if (std::exchange(settling_, true)) return;
    boost::asio::post(io_, [this] {
      settling_ = false;
      if (!ending_) Apply(coordinator_.Settle(clock_.Now()));
    });
  }

  static bool Accepts(const Actions& actions, ConnectionId id) {
    return std::any_of(actions.begin(), actions.end(), [id](const Action& action) {
      const auto* send = std::get_if<SendTo>(&action);
      return send != nullptr && send->connection == id &&
             std::holds_alternative<control::Welcome>(send->message);
    });
  }

  void OnClosed(ConnectionId id, bool greeted) {
    if (greeted) {
      shells_.OnAgentDisconnected(id);
      Apply(coordinator_.OnClosed(clock_.Now(), id));
      SettleSoon();
    }
    if (ending_) EndIfQuiet();
  }

  void Tick() {
    if (ending_) return;
    const Clock::Time now = clock_.Now();
    agents_.CloseSilent(now);
    Apply(coordinator_.OnTick(now));
    LogPhase();
    ticker_.expires_after(config_.heartbeat);
    ticker_.async_wait([this](const error_code& stopped) {
      if (!stopped) Tick();
    });
  }

  // Logs what the job waits for, whenever that changes, to explain why a job does not start.
  void LogPhase() {
    const std::string message = coordinator_.WaitingText(clock_.Now());
    if (message == last_message_) return;
    last_message_ = message;
    if (!message.empty()) LogInfo("Waiting", {{"for", message}});
  }

  void Apply(Actions actions) {
    for (Action& action : actions) {
      std::visit([this](auto& one) { Do(one); }, action);
    }
  }

  void Do(const SendTo& send) { agents_.Send(send.connection, send.message); }
  void Do(const SendToAll& send) { agents_.SendToAll(send.connections, send.message); }
  void Do(const Refuse& refuse) { agents_.Refuse(refuse.connection, refuse.reason); }
  void Do(const Drop& drop) { agents_.Close(drop.connection, drop.reason); }
  void Do(const StartMpirun& start) {
    if (start.by_agent) {
      const std::vector<std::string> names = HostNames(start.hosts);
      std::map<std::string, ConnectionId> hosts;
      for (std::size_t i = 0; i < names.size(); ++i) hosts[names[i]] = start.hosts[i].connection;
      shells_.Begin(std::move(hosts));
    }
    mpirun_.Start(start);
  }
  void Do(const StopMpirun& /*stop*/) { mpirun_.Stop(); }
  void Do(const Probe& probe) {
    probe_.Ask(probe.address, probe.port, [this, pod_uid = probe.pod_uid](bool refused) {
      if (ending_) return;
      Apply(coordinator_.OnProbe(clock_.Now(), pod_uid, refused));
      SettleSoon();
    });
  }
  void Do(const Print& print) {
    PassThrough(print.is_stderr, TagLines(print.whose, print.is_stderr, print.data));
  }
  void Do(const Record& record) { WriteVerdict(config_.termination_log, record.verdict); }
  void Do(const launcher::Finish& finish) {
    if (finish.verdict.succeeded) {
      LogInfo("Finished the job", {{"message", finish.verdict.message}});
    } else {
      LogError("Failed the job",
               {{"reason", finish.verdict.reason}, {"message", finish.verdict.message}});
    }
    BeginEnd(finish.exit_code);
  }

  void Terminate() {
    LogInfo("Received a termination signal");
    if (ending_) return;
    Apply(coordinator_.OnTerminate(clock_.Now()));
    if (!ending_) BeginEnd(control::kExitTerminated);  // ending_ is set if a verdict was reached
  }

  // Sends queued messages and ends mpirun, within time limits, and then stops the event loop.
  void BeginEnd(int exit_code) {
    ending_ = true;
    exit_code_ = exit_code;
    ticker_.cancel();
    agents_.End("the job is over");
    end_timer_.expires_after(kEndLimit);
    end_timer_.async_wait([this](const error_code&) { io_.stop(); });
    boost::asio::post(io_, [this] { EndIfQuiet(); });
  }

  void EndIfQuiet() {
    if (!agents_.empty()) return;
    if (!mpirun_.running()) return io_.stop();
    // No handler receives mpirun's exit any more, so poll until mpirun has exited.
    ticker_.expires_after(std::chrono::milliseconds(20));
    ticker_.async_wait([this](const error_code& stopped) {
      if (!stopped) EndIfQuiet();
    });
  }

  // These members do not change.
  const Config& config_;
  const Clock& clock_;

  // Declared before all members that use the io_context.
  boost::asio::io_context io_{1};
  std::unique_ptr<control::TlsContext> tls_;
  Coordinator coordinator_;
  const std::string operator_token_;
  ChildReaper reaper_;
  MpirunRunner mpirun_;
  AgentConnections agents_;
  RemoteShells shells_;
  std::unique_ptr<net::HttpServer> api_;
  bool settling_ = false;
  PortProbe probe_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer ticker_;
  boost::asio::steady_timer end_timer_;
  std::string last_message_;
  bool ending_ = false;
  int exit_code_ = control::kExitFailed;
};

int EndEarly(const Config& config, const std::string& reason, const std::string& message) {
  LogError("Failed the job", {{"reason", reason}, {"message", message}});
  control::Verdict verdict;
  verdict.reason = reason;
  verdict.message = message;
  verdict.epoch.term = config.term;
  WriteVerdict(config.termination_log, verdict);
  return control::kExitFailed;
}

// Writes the files that ssh requires, and returns the items of the job's Secret.
Result<Items> Prepare(const Config& config) {
  if (Result<void> made = control::MakePrivateDirectory(config.runtime_dir); !made.ok()) {
    return made.error();
  }
  Result<bool> entry = EnsureUserEntry(config.runtime_dir + "/nss", config.runtime_dir);
  if (!entry.ok()) return entry.error();
  Result<Items> items = control::LoadCredentials(config.credentials_dir, config.item_hashes);
  if (!items.ok()) return items;
  for (const char* name :
       {control::kItemSshUserKey, control::kItemSshHostPublicKey, control::kItemTlsKey,
        control::kItemTlsCertificate, control::kItemAgentToken, control::kItemOperatorToken}) {
    if (!items->contains(name)) {
      return Error{ErrorKind::kInvalid,
                   std::string("the job's credentials do not contain the item ") + name};
    }
  }
  Result<void> written = control::WriteFileAtomically(config.runtime_dir + "/ssh_user_key",
                                                      items->at(control::kItemSshUserKey), 0600);
  if (!written.ok()) return written.error();
  return items;
}

}  // namespace

int RunLauncher(const Config& config, const Clock& clock) {
  const Result<Items> items = Prepare(config);
  if (!items.ok()) {
    return EndEarly(config,
                    items.error().kind == ErrorKind::kInvalid ? control::kReasonCredentialsMismatch
                                                              : control::kReasonLauncherError,
                    items.error().message);
  }
  auto tls = control::TlsContext::Server(items->at(control::kItemTlsKey),
                                         items->at(control::kItemTlsCertificate));
  if (!tls.ok()) {
    return EndEarly(config, control::kReasonCredentialsMismatch, tls.error().message);
  }
  try {
    return Launcher(config, clock, *items, std::move(*tls)).Run();
  } catch (const std::exception& error) {
    return EndEarly(config, control::kReasonLauncherError, error.what());
  }
}

void WriteVerdict(const std::string& termination_log, const control::Verdict& verdict) {
  std::ofstream file(termination_log, std::ios::binary | std::ios::trunc);
  file << control::EncodeVerdict(verdict);
  file.close();
  if (file.fail()) LogError("Failed to write the verdict", {{"path", termination_log}});
}

}  // namespace ringmaster::launcher
