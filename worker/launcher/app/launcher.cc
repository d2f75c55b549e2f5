#include "worker/launcher/app/launcher.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/log.h"
#include "common/base/user_entry.h"
#include "common/control/line_connection.h"
#include "common/control/pod_contract.h"
#include "common/control/secrets.h"
#include "common/process/child_reaper.h"
#include "worker/launcher/app/port_probe.h"
#include "worker/launcher/coordinator/coordinator.h"
#include "worker/launcher/mpi/mpirun_runner.h"
#include "worker/launcher/mpi/tagged_output.h"
#include "worker/launcher/server/api_server.h"

namespace ringmaster::launcher {
namespace {

using boost::system::error_code;
using Items = std::map<std::string, std::string>;

constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::chrono::seconds kEndLimit{4};
constexpr std::size_t kMaxStrangers = 1024;  // connections that have not said hello
constexpr std::size_t kMaxHelloBytes = 16 << 10;
constexpr int kExitTerminated = 143;

// One connection of an agent, or of somebody who has not said yet who it is.
struct Peer {
  std::shared_ptr<control::LineConnection> connection;
  Clock::Time since;
  bool greeted = false;
};

class Launcher {
 public:
  Launcher(const Config& config, const Clock& clock, const Items& items,
           std::unique_ptr<control::TlsContext> tls)
      : config_(config),
        clock_(clock),
        tls_(std::move(tls)),
        coordinator_(OptionsFrom(config, items)),
        operator_token_(items.at(control::kItemOperatorToken)),
        reaper_(io_),
        mpirun_(reaper_, config, config.runtime_dir + "/ssh_user_key",
                items.at(control::kItemSshHostPublicKey),
                [this](int64_t cohort, const MpirunExit& exit) {
                  // Later, not from within the action that failed to start it.
                  boost::asio::post(io_, [this, cohort, exit] {
                    Apply(coordinator_.OnMpirunExited(clock_.Now(), cohort, exit));
                  });
                }),
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
    } else {
      mpirun_.Probe([this](Result<MpiVersion> version) { OnVersion(version); });
    }
    io_.run();
    return exit_code_;
  }

 private:
  static CoordinatorOptions OptionsFrom(const Config& config, const Items& items) {
    CoordinatorOptions options;
    options.term = config.term;
    options.job_uid = config.job_uid;
    options.agent_token = items.at(control::kItemAgentToken);
    options.slots = config.spec.slots_per_worker;
    options.managed = config.spec.IsManagedTrainer();
    options.heartbeat = config.heartbeat;
    options.lost_after = config.lost_after;
    options.stall_floor = config.stall_floor;
    options.restart_limit = config.restart_limit;
    options.restart_window = config.restart_window;
    options.crash_limit = config.crash_limit;
    options.exit_codes = config.exit_codes;
    // Lateness of our own must not look like theirs.
    options.late_tick =
        config.heartbeat +
        std::min<std::chrono::milliseconds>(config.lost_after / 2, std::chrono::milliseconds(400));
    return options;
  }

  Result<void> Listen() {
    control::ListenOptions strangers;
    strangers.limits.max_line_bytes = kMaxHelloBytes;
    auto agents = control::ListenTls(
        io_, "::", config_.control_port, *tls_, strangers,
        [this](std::shared_ptr<control::LineConnection> peer) { Accept(std::move(peer)); });
    if (!agents.ok()) {  // a host without IPv6
      agents = control::ListenTls(
          io_, "0.0.0.0", config_.control_port, *tls_, strangers,
          [this](std::shared_ptr<control::LineConnection> peer) { Accept(std::move(peer)); });
    }
    if (!agents.ok()) return agents.error();
    listener_ = std::move(*agents);

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
                                     {"control_port", listener_->port()},
                                     {"api_port", api_->port()}});
    return {};
  }

  void OnVersion(const Result<MpiVersion>& version) {
    if (ending_) return;
    if (!version.ok()) {
      return Apply(coordinator_.OnOwnFailure(clock_.Now(), control::kReasonMpirunFailed,
                                             version.error().message));
    }
    LogInfo("Found mpirun", {{"version", version->version}});
    Apply(coordinator_.OnMpiVersion(clock_.Now(), version->version));
    Tick();
  }

  Result<void> OnOrder(const control::Order& order) {
    auto actions = coordinator_.OnOrder(clock_.Now(), order);
    if (!actions.ok()) return actions.error();
    Apply(std::move(*actions));
    return {};
  }

  void Accept(std::shared_ptr<control::LineConnection> connection) {
    if (ending_) return connection->Close("the job is over");
    // An agent says hello at once: whoever has been silent for longest makes room.
    if (strangers_.size() >= kMaxStrangers) {
      const ConnectionId oldest = *strangers_.begin();
      strangers_.erase(oldest);
      peers_.at(oldest).connection->Close("too many connections that say nothing");
    }
    const ConnectionId id = next_id_++;
    peers_[id] = {connection, clock_.Now(), false};
    strangers_.insert(id);
    control::LineConnection::Handlers handlers;
    handlers.on_message = [this, id](const control::Message& message) { OnMessage(id, message); };
    handlers.on_closed = [this, id](const std::string& reason) { OnClosed(id, reason); };
    connection->Start(std::move(handlers));
  }

  void OnMessage(ConnectionId id, const control::Message& message) {
    Peer& peer = peers_.at(id);
    if (peer.greeted) {
      Apply(coordinator_.OnMessage(clock_.Now(), id, message));
      return SettleSoon();
    }
    const auto* hello = std::get_if<control::AgentHello>(&message);
    if (hello == nullptr) return Apply({Refuse{id, "the first message is no AgentHello"}});
    peer.greeted = true;
    strangers_.erase(id);
    LogDebug("Heard an agent's hello", {{"pod", hello->pod}, {"peer", peer.connection->peer()}});
    Actions actions = coordinator_.OnHello(clock_.Now(), id, *hello);
    if (Accepts(actions, id)) peer.connection->SetMaxLineBytes(control::kMaxLineBytes);
    Apply(std::move(actions));
    SettleSoon();
  }

  // Once for all that is at hand by then.
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

  void OnClosed(ConnectionId id, const std::string& reason) {
    const auto node = peers_.extract(id);
    if (node.empty()) return;
    LogDebug("Closed a connection",
             {{"peer", node.mapped().connection->peer()}, {"reason", reason}});
    strangers_.erase(id);
    if (node.mapped().greeted) {
      Apply(coordinator_.OnClosed(clock_.Now(), id));
      SettleSoon();
    }
    if (ending_) EndIfQuiet();
  }

  void Tick() {
    if (ending_) return;
    const Clock::Time now = clock_.Now();
    for (const ConnectionId id : strangers_) {
      const Peer& peer = peers_.at(id);
      if (now - peer.since <= kHelloLimit) break;  // nor do the others, which came later
      peer.connection->Close("said nothing");
    }
    Apply(coordinator_.OnTick(now));
    LogPhase();
    ticker_.expires_after(config_.heartbeat);
    ticker_.async_wait([this](const error_code& stopped) {
      if (!stopped) Tick();
    });
  }

  // What it waits for, once per change: the log of a job that does not start tells why.
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

  void Do(const SendTo& send) {
    if (auto connection = Find(send.connection)) connection->Send(send.message);
  }
  void Do(const SendToAll& send) {
    const control::SharedLine line(send.message);
    for (const ConnectionId id : send.connections) {
      if (auto connection = Find(id)) connection->SendShared(line);
    }
  }
  void Do(const Refuse& refuse) {
    const auto connection = Find(refuse.connection);
    if (!connection) return;
    connection->Send(control::Refused{refuse.reason});
    connection->Finish(refuse.reason);
  }
  void Do(const Drop& drop) {
    if (auto connection = Find(drop.connection)) connection->Close(drop.reason);
  }
  void Do(const StartMpirun& start) { mpirun_.Start(start); }
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

  std::shared_ptr<control::LineConnection> Find(ConnectionId id) const {
    const auto found = peers_.find(id);
    return found == peers_.end() ? nullptr : found->second.connection;
  }

  void Terminate() {
    LogInfo("Asked to end by a signal");
    if (ending_) return;
    Apply(coordinator_.OnTerminate(clock_.Now()));
    if (!ending_) BeginEnd(kExitTerminated);  // else there was a verdict
  }

  // What was sent goes out and mpirun ends, within limits; then the loop has nothing left to do.
  void BeginEnd(int exit_code) {
    ending_ = true;
    exit_code_ = exit_code;
    ticker_.cancel();
    for (const auto& [id, peer] : peers_) peer.connection->Finish("the job is over");
    end_timer_.expires_after(kEndLimit);
    end_timer_.async_wait([this](const error_code&) { io_.stop(); });
    boost::asio::post(io_, [this] { EndIfQuiet(); });
  }

  void EndIfQuiet() {
    if (!peers_.empty()) return;
    if (!mpirun_.running()) return io_.stop();
    // Its end is not told to anybody any more: look again.
    ticker_.expires_after(std::chrono::milliseconds(20));
    ticker_.async_wait([this](const error_code& stopped) {
      if (!stopped) EndIfQuiet();
    });
  }

  // Constant.
  const Config& config_;
  const Clock& clock_;

  // Before everything that lives on it.
  boost::asio::io_context io_{1};
  std::unique_ptr<control::TlsContext> tls_;
  Coordinator coordinator_;
  const std::string operator_token_;
  ChildReaper reaper_;
  MpirunRunner mpirun_;
  std::unique_ptr<control::LineListener> listener_;
  std::unique_ptr<net::HttpServer> api_;
  std::map<ConnectionId, Peer> peers_;
  std::set<ConnectionId> strangers_;  // that have not said hello, oldest first
  bool settling_ = false;
  ConnectionId next_id_ = 1;
  PortProbe probe_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer ticker_;
  boost::asio::steady_timer end_timer_;
  std::string last_message_;
  bool ending_ = false;
  int exit_code_ = 1;
};

int EndEarly(const Config& config, const std::string& reason, const std::string& message) {
  LogError("Failed the job", {{"reason", reason}, {"message", message}});
  control::Verdict verdict;
  verdict.reason = reason;
  verdict.message = message;
  verdict.epoch.term = config.term;
  WriteVerdict(config.termination_log, verdict);
  return 1;
}

// The items, once the files are in place that ssh wants.
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
      return Error{ErrorKind::kInvalid, std::string("the job's credentials lack the item ") + name};
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
  if (file.fail()) LogError("Could not write the verdict", {{"path", termination_log}});
}

}  // namespace ringmaster::launcher
