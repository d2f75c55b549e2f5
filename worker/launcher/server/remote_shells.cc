#include "worker/launcher/server/remote_shells.h"

#include <algorithm>
#include <optional>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"

namespace ringmaster::launcher {
namespace {

// JSON may make a command six times as long.
constexpr std::size_t kMaxShellLineBytes = 1 << 20;

}  // namespace

Result<void> RemoteShells::Listen(boost::asio::io_context& io, const std::string& socket_path) {
  control::ListenOptions options;
  options.limits.max_line_bytes = kMaxShellLineBytes;
  auto listener = control::ListenUnix(
      io, socket_path, options, [this](const std::shared_ptr<control::LineConnection>& shell) {
        const std::optional<control::UnixPeer> who = shell->unix_peer();
        if (who && who->uid == ::geteuid()) return Add(shell);
        LogWarn("Rejected a process of another user", {{"pid", who ? who->pid : -1}});
        shell->Close("another user");
      });
  if (!listener.ok()) return listener.error();
  listener_ = *std::move(listener);
  return {};
}

void RemoteShells::Begin(std::map<std::string, ConnectionId> hosts) {
  hosts_ = std::move(hosts);
  for (auto& [id, shell] : shells_) {
    if (shell.agent != 0) send_(shell.agent, control::EndCommand{id});
    shell.agent = 0;
    Refuse(shell, "its mpirun has exited");
  }
}

void RemoteShells::Add(std::shared_ptr<control::LineConnection> connection) {
  const int64_t id = next_id_++;
  shells_[id].connection = connection;
  control::LineConnection::Handlers handlers;
  handlers.on_message = [this, id](const control::Message& message) { OnHello(id, message); };
  handlers.on_closed = [this, id](const std::string&) { OnClosed(id); };
  connection->Start(std::move(handlers));
}

void RemoteShells::OnHello(int64_t id, const control::Message& message) {
  Shell& shell = shells_.at(id);
  const auto* hello = std::get_if<control::RshHello>(&message);
  if (hello == nullptr || !shell.host.empty()) {
    return shell.connection->Close("its first message is not an RshHello");
  }
  const auto host = hosts_.find(hello->host);
  if (host == hosts_.end()) return Refuse(shell, "this run of mpirun has no worker with that name");
  if (host->second == 0) return Refuse(shell, "the connection of that worker's agent has broken");
  if (hello->command.size() > control::kMaxCommandBytes) {
    return Refuse(shell, "the command is too long for a shell");
  }
  const bool busy = std::ranges::any_of(shells_, [&](const auto& other) {
    return other.second.agent != 0 && other.second.host == hello->host;
  });
  if (busy) return Refuse(shell, "another command of mpirun is already running there");
  shell.host = hello->host;
  shell.agent = host->second;
  LogDebug("Running a command on a worker", {{"host", hello->host}, {"command", hello->command}});
  send_(shell.agent, control::RunCommand{id, hello->command});
}

// Called when mpirun has ended ringmaster-rsh or the command has ended.
void RemoteShells::OnClosed(int64_t id) {
  const auto node = shells_.extract(id);
  if (node.empty() || node.mapped().agent == 0) return;
  send_(node.mapped().agent, control::EndCommand{id});
}

bool RemoteShells::OnMessage(ConnectionId agent, const control::Message& message) {
  if (const auto* output = std::get_if<control::CommandOutput>(&message)) {
    Shell* const shell = Find(agent, output->id);
    if (shell != nullptr) shell->connection->Send(*output);
    return true;
  }
  const auto* exited = std::get_if<control::CommandExited>(&message);
  if (exited == nullptr) return false;
  Shell* const shell = Find(agent, exited->id);
  if (shell == nullptr) return true;
  shell->agent = 0;
  shell->connection->Send(*exited);
  shell->connection->Finish("its command has exited");
  return true;
}

void RemoteShells::OnAgentDisconnected(ConnectionId agent) {
  for (auto& [host, connection] : hosts_) {
    if (connection == agent) connection = 0;
  }
  for (auto& [id, shell] : shells_) {
    if (shell.agent != agent) continue;
    shell.agent = 0;
    Refuse(shell, "lost the connection to the agent of that worker while the command was running");
  }
}

void RemoteShells::Refuse(Shell& shell, const std::string& reason) {
  shell.connection->Send(control::Refused{reason});
  shell.connection->Finish(reason);
}

RemoteShells::Shell* RemoteShells::Find(ConnectionId agent, int64_t id) {
  const auto found = shells_.find(id);
  return found != shells_.end() && found->second.agent == agent ? &found->second : nullptr;
}

}  // namespace ringmaster::launcher
