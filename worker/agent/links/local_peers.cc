#include "worker/agent/links/local_peers.h"

#include <optional>
#include <unistd.h>
#include <utility>
#include <variant>

#include "common/base/log.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kHelloLimit{5000};

// Returns why a process with this protocol version is rejected; empty if it is accepted.
std::string TooOld(int protocol) {
  if (protocol >= control::kFirstProtocol) return "";
  return "it speaks protocol " + std::to_string(protocol) + ", but this agent requires at least " +
         std::to_string(control::kFirstProtocol);
}

}  // namespace

LocalPeers::LocalPeers(boost::asio::io_context& io, Handlers handlers)
    : io_(io), handlers_(std::move(handlers)) {}

LocalPeers::~LocalPeers() {
  *alive_ = false;
  for (const auto& [id, peer] : peers_) peer.connection->Close("the agent is stopping");
}

Result<void> LocalPeers::Listen(const std::string& socket_path) {
  Result<std::unique_ptr<control::LineListener>> listener = control::ListenUnix(
      io_, socket_path, {}, [this](const std::shared_ptr<control::LineConnection>& connection) {
        OnAccepted(connection);
      });
  if (!listener.ok()) return listener.error();
  listener_ = std::move(*listener);
  return {};
}

void LocalPeers::Send(PeerId id, const control::Message& message) {
  const auto peer = peers_.find(id);
  if (peer != peers_.end()) peer->second.connection->Send(message);
}

void LocalPeers::Close(PeerId id, const std::string& reason) {
  const auto peer = peers_.find(id);
  if (peer != peers_.end()) peer->second.connection->Finish(reason);
}

std::size_t LocalPeers::QueuedBytes(PeerId id) const {
  const auto peer = peers_.find(id);
  return peer == peers_.end() ? 0 : peer->second.connection->queued_bytes();
}

void LocalPeers::OnAccepted(const std::shared_ptr<control::LineConnection>& connection) {
  const std::optional<control::UnixPeer> who = connection->unix_peer();
  if (!who.has_value() || who->uid != geteuid()) {
    LogWarn("Rejected a process of another user", {{"pid", who.has_value() ? who->pid : -1}});
    return connection->Close("another user");
  }
  const PeerId id = next_++;
  Peer& peer = peers_[id];
  peer.connection = connection;
  peer.pid = who->pid;
  peer.hello_limit = std::make_unique<boost::asio::steady_timer>(io_, kHelloLimit);
  peer.hello_limit->async_wait([connection](const boost::system::error_code& cancelled) {
    if (!cancelled) connection->Close("it did not identify itself");
  });
  connection->Start({.on_message =
                         [this, id, alive = alive_](control::Message message) {
                           if (*alive) OnMessage(id, std::move(message));
                         },
                     .on_closed =
                         [this, id, alive = alive_](const std::string&) {
                           if (*alive) OnClosed(id);
                         },
                     .on_drained =
                         [this, id, alive = alive_] {
                           if (*alive) handlers_.on_drained(id);
                         }});
}

void LocalPeers::OnMessage(PeerId id, control::Message message) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  if (peer.admitted) return handlers_.on_message(id, std::move(message));
  peer.hello_limit.reset();
  std::string refusal;
  peer.admitted = true;
  if (const auto* rank = std::get_if<control::RankHello>(&message)) {
    refusal = TooOld(rank->protocol);
    if (refusal.empty()) refusal = handlers_.on_rank(id, *rank, peer.pid);
  } else if (const auto* attach = std::get_if<control::AttachHello>(&message)) {
    refusal = TooOld(attach->protocol);
    if (refusal.empty()) handlers_.on_attach(id, *attach, peer.pid);
  } else {
    refusal = "its first line was a " + std::string(control::TypeName(message));
  }
  if (refusal.empty()) return;
  LogWarn("Rejected a local process", {{"pid", peer.pid}, {"reason", refusal}});
  peer.admitted = false;
  peer.connection->Send(control::Refused{refusal});
  peer.connection->Finish(refusal);
}

void LocalPeers::OnClosed(PeerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  const bool admitted = peer->second.admitted;
  peers_.erase(peer);
  if (admitted) handlers_.on_disconnected(id);
}

}  // namespace ringmaster::agent
