#include "worker/launcher/server/agent_connections.h"

#include <utility>
#include <variant>

#include "common/base/log.h"

namespace ringmaster::launcher {
namespace {

constexpr std::size_t kMaxHelloBytes = 16 << 10;

}  // namespace

Result<void> AgentConnections::Listen(boost::asio::io_context& io, int port,
                                      control::TlsContext& tls) {
  control::ListenOptions strangers;
  strangers.limits.max_line_bytes = kMaxHelloBytes;
  const auto accept = [this](std::shared_ptr<control::LineConnection> peer) {
    Add(std::move(peer));
  };
  auto listener = control::ListenTls(io, "::", port, tls, strangers, accept);
  if (!listener.ok()) {  // the host may have no IPv6
    listener = control::ListenTls(io, "0.0.0.0", port, tls, strangers, accept);
  }
  if (!listener.ok()) return listener.error();
  listener_ = std::move(*listener);
  return {};
}

void AgentConnections::Add(std::shared_ptr<control::LineConnection> connection) {
  if (!end_reason_.empty()) return connection->Close(end_reason_);
  // Agents send their hello at once, so close the connection that has been silent for longest.
  if (pending_.size() >= kMaxPending) {
    const ConnectionId oldest = *pending_.begin();
    pending_.erase(oldest);
    peers_.at(oldest).connection->Close("too many silent connections");
  }
  const ConnectionId id = next_id_++;
  peers_[id] = {connection, clock_.Now(), false};
  pending_.insert(id);
  control::LineConnection::Handlers handlers;
  handlers.on_message = [this, id](const control::Message& message) { OnMessage(id, message); };
  handlers.on_closed = [this, id](const std::string& reason) { OnClosed(id, reason); };
  connection->Start(std::move(handlers));
}

void AgentConnections::OnMessage(ConnectionId id, const control::Message& message) {
  Peer& peer = peers_.at(id);
  if (peer.greeted) return handlers_.on_message(id, message);
  const auto* hello = std::get_if<control::AgentHello>(&message);
  if (hello == nullptr) return Refuse(id, "the first message is not an AgentHello");
  peer.greeted = true;
  pending_.erase(id);
  LogDebug("Received a hello from an agent",
           {{"pod", hello->pod}, {"peer", peer.connection->peer()}});
  handlers_.on_hello(id, *hello);
}

void AgentConnections::OnClosed(ConnectionId id, const std::string& reason) {
  const auto node = peers_.extract(id);
  if (node.empty()) return;
  LogDebug("Closed a connection", {{"peer", node.mapped().connection->peer()}, {"reason", reason}});
  pending_.erase(id);
  handlers_.on_closed(id, node.mapped().greeted);
}

void AgentConnections::CloseSilent(Clock::Time now) {
  for (const ConnectionId id : pending_) {
    const Peer& peer = peers_.at(id);
    if (now - peer.since <= kHelloLimit) break;  // the remaining ones connected later
    peer.connection->Close("sent no hello in time");
  }
}

void AgentConnections::Admit(ConnectionId id) {
  if (auto connection = Find(id)) connection->SetMaxLineBytes(control::kMaxLineBytes);
}

void AgentConnections::Send(ConnectionId id, const control::Message& message) {
  if (auto connection = Find(id)) connection->Send(message);
}

void AgentConnections::SendToAll(const std::vector<ConnectionId>& ids,
                                 const control::Message& message) {
  const control::SharedLine line(message);
  for (const ConnectionId id : ids) {
    if (auto connection = Find(id)) connection->SendShared(line);
  }
}

void AgentConnections::Refuse(ConnectionId id, const std::string& reason) {
  const auto connection = Find(id);
  if (!connection) return;
  connection->Send(control::Refused{reason});
  connection->Finish(reason);
}

void AgentConnections::Close(ConnectionId id, const std::string& reason) {
  if (auto connection = Find(id)) connection->Close(reason);
}

void AgentConnections::End(const std::string& reason) {
  end_reason_ = reason;
  for (const auto& [id, peer] : peers_) peer.connection->Finish(reason);
}

std::shared_ptr<control::LineConnection> AgentConnections::Find(ConnectionId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.connection;
}

}  // namespace ringmaster::launcher
