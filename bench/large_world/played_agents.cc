#include "bench/large_world/played_agents.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

namespace ringmaster::bench {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kTick{10};
constexpr std::chrono::milliseconds kRedial{50};
// A longer line contains a whole world; a simulated agent needs only the world's epoch.
constexpr std::size_t kLongLine = 64 << 10;

control::Epoch EpochOf(const std::string& line) {
  control::Epoch epoch;
  const std::size_t at = line.find("\"epoch\":{\"number\":");
  if (at == std::string::npos) return epoch;
  char* rest = nullptr;
  epoch.number = std::strtoll(line.c_str() + at + 18, &rest, 10);
  epoch.term = std::strtoll(rest + 8, nullptr, 10);  // ,"term":
  return epoch;
}

}  // namespace

// One connection. Passes lines on as text, so that long lines need not be decoded.
class PlayedAgents::Line : public std::enable_shared_from_this<Line> {
 public:
  Line(asio::io_context& io, control::TlsContext& tls,
       std::function<void(const std::string&)> on_line, std::function<void()> on_closed)
      : stream_(io, tls.asio()), on_line_(std::move(on_line)), on_closed_(std::move(on_closed)) {
    SSL_set_tlsext_host_name(stream_.native_handle(), tls.server_name().c_str());
  }

  void Dial(int port, std::function<void()> on_dialled) {
    stream_.next_layer().async_connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)},
        [self = shared_from_this(), on_dialled](const error_code& error) {
          if (error) return self->Close();
          error_code ignored;
          self->stream_.next_layer().set_option(tcp::no_delay(true), ignored);
          self->stream_.async_handshake(asio::ssl::stream_base::client,
                                        [self, on_dialled](const error_code& failed) {
                                          if (failed) return self->Close();
                                          on_dialled();
                                          self->Read();
                                        });
        });
  }

  void Send(const std::string& text) {
    queue_ += text;
    queue_ += '\n';
    if (std::exchange(writing_, true)) return;
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->Write(); });
  }

  void Close() {
    error_code ignored;
    stream_.next_layer().close(ignored);
    if (const auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
  }

  void Forget() { on_closed_ = nullptr; }

 private:
  void Write() {
    in_flight_.clear();
    in_flight_.swap(queue_);
    asio::async_write(stream_, asio::buffer(in_flight_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error) return self->Close();
                        if (!self->queue_.empty()) return self->Write();
                        self->writing_ = false;
                      });
  }

  void Read() {
    stream_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](
                                                      const error_code& error, std::size_t count) {
      if (error) return self->Close();
      self->Take({self->chunk_.data(), count});
      self->Read();
    });
  }

  void Take(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      partial_ += bytes.substr(0, end);
      if (end == std::string_view::npos) return;
      bytes.remove_prefix(end + 1);
      on_line_(partial_);
      partial_.clear();
    }
  }

  asio::ssl::stream<tcp::socket> stream_;
  std::function<void(const std::string&)> on_line_;
  std::function<void()> on_closed_;
  std::array<char, 16384> chunk_;
  std::string partial_;
  std::string queue_;
  std::string in_flight_;
  bool writing_ = false;
};

PlayedAgents::PlayedAgents(asio::io_context& io, control::TlsContext& tls, Options options)
    : io_(io),
      tls_(tls),
      options_(std::move(options)),
      agents_(static_cast<std::size_t>(options_.agents)),
      beat_(io) {
  for (int i = 0; i < options_.agents; ++i) {
    Agent& agent = agents_[static_cast<std::size_t>(i)];
    by_uid_[Uid(i)] = i;
    agent.starts.assign(kSlots, "0123456789abcdef-1");
    agent.ranks.assign(kSlots, -1);
    for (int slot = 0; slot < kSlots; ++slot) world_.emplace_back(i, slot);
  }
}

PlayedAgents::~PlayedAgents() {
  for (Agent& agent : agents_) {
    if (agent.line == nullptr) continue;
    agent.line->Forget();
    agent.line->Close();
  }
}

std::string PlayedAgents::Uid(int agent) {
  return "5d2f8a10-4c1e-4b7a-9c55-0000001" + std::to_string(10'000 + agent);
}

void PlayedAgents::Dial() {
  for (int i = 0; i < options_.agents; ++i) Dial(i);
  Beat();
}

void PlayedAgents::Dial(int agent) {
  Agent& one = agents_[static_cast<std::size_t>(agent)];
  if (one.lost) return;
  one.line = std::make_shared<Line>(
      io_, tls_, [this, agent](const std::string& text) { OnLine(agent, text); },
      [this, agent] { OnClosed(agent); });
  one.line->Dial(options_.port, [this, agent] {
    control::AgentHello hello;
    hello.token = options_.token;
    hello.job_uid = options_.job_uid;
    hello.pod_uid = Uid(agent);
    hello.pod = Pod(agent);
    hello.node = Node(agent);
    hello.worker_index = agent;
    hello.slots = kSlots;
    hello.nonce = "0123456789abcdef";
    hello.highest_epoch = agents_[static_cast<std::size_t>(agent)].told;
    Send(agent, hello);
  });
}

void PlayedAgents::OnClosed(int agent) {
  Agent& one = agents_[static_cast<std::size_t>(agent)];
  if (one.lost) return;
  ++dropped_;
  welcomed_ -= std::exchange(one.welcomed, false) ? 1 : 0;
  const auto again = std::make_shared<asio::steady_timer>(io_, kRedial);
  again->async_wait([this, again, agent](const error_code&) { Dial(agent); });
}

void PlayedAgents::Send(int agent, const control::Message& message) {
  agents_[static_cast<std::size_t>(agent)].line->Send(control::Encode(message));
}

void PlayedAgents::OnLine(int agent, const std::string& text) {
  if (text.size() > kLongLine) return OnEpoch(agent, EpochOf(text));
  const auto message = control::Decode(text);
  if (message.ok()) OnMessage(agent, *message);
}

void PlayedAgents::OnMessage(int agent, const control::Message& message) {
  if (std::holds_alternative<control::Welcome>(message)) {
    ++welcomed_;
    agents_[static_cast<std::size_t>(agent)].welcomed = true;
    Send(agent, control::AgentReady{"127.0.0.1", 1, {}, {{"openmpi", "4.1.4"}}});
    for (int slot = 0; slot < kSlots; ++slot) {
      Send(agent,
           control::RankReady{
               slot,
               agents_[static_cast<std::size_t>(agent)].starts[static_cast<std::size_t>(slot)]});
    }
  } else if (const auto* beat = std::get_if<control::Heartbeat>(&message)) {
    if (beat->every_millis > 0) every_ = std::chrono::milliseconds(beat->every_millis);
  } else if (const auto* prepare = std::get_if<control::PrepareEpoch>(&message)) {
    Send(agent, control::EpochAccepted{prepare->epoch});
  } else if (const auto* start = std::get_if<control::StartEpoch>(&message)) {
    OnEpoch(agent, start->epoch);
  } else if (const auto* change = std::get_if<control::ChangeEpoch>(&message)) {
    if (change->epoch > epoch_) Change(*change);
    OnEpoch(agent, change->epoch);
  } else if (std::holds_alternative<control::SwitchEpoch>(message)) {
    for (const int rank : agents_[static_cast<std::size_t>(agent)].ranks) {
      if (rank >= 0) Send(agent, control::RankAtBoundary{epoch_, rank, step_});
    }
  }
}

void PlayedAgents::OnEpoch(int agent, const control::Epoch& epoch) {
  if (epoch > epoch_) {
    epoch_ = epoch;
    PlaceRanks();
  }
  agents_[static_cast<std::size_t>(agent)].told = epoch;
}

void PlayedAgents::Change(const control::ChangeEpoch& change) {
  std::vector<std::pair<int, int>> next;
  auto left = change.left.begin();
  for (int rank = 0; rank < static_cast<int>(world_.size()); ++rank) {
    while (left != change.left.end() && rank >= left->first + left->count) ++left;
    if (left != change.left.end() && rank >= left->first) continue;
    next.push_back(world_[static_cast<std::size_t>(rank)]);
  }
  for (const control::Member& member : change.joined) {
    next.emplace_back(by_uid_.at(member.pod_uid), member.slot);
  }
  world_ = std::move(next);
}

void PlayedAgents::PlaceRanks() {
  for (Agent& agent : agents_) agent.ranks.assign(kSlots, -1);
  for (std::size_t rank = 0; rank < world_.size(); ++rank) {
    const auto& [agent, slot] = world_[rank];
    agents_[static_cast<std::size_t>(agent)].ranks[static_cast<std::size_t>(slot)] =
        static_cast<int>(rank);
  }
}

bool PlayedAgents::AllInformed() const {
  return std::all_of(agents_.begin(), agents_.end(), [&](const Agent& agent) {
    const bool member =
        std::any_of(agent.ranks.begin(), agent.ranks.end(), [](int rank) { return rank >= 0; });
    return agent.lost || !member || agent.told == epoch_;
  });
}

void PlayedAgents::AttachAll(int64_t cohort) {
  for (int rank = 0; rank < static_cast<int>(world_.size()); ++rank) {
    const auto& [agent, slot] = world_[static_cast<std::size_t>(rank)];
    Send(agent, control::SlotAttached{cohort, slot, rank, static_cast<int>(world_.size())});
  }
}

void PlayedAgents::LoseRank(int agent, int slot) {
  const Agent& one = agents_[static_cast<std::size_t>(agent)];
  control::RankExited exited;
  exited.epoch = epoch_;
  exited.exit.rank = one.ranks[static_cast<std::size_t>(slot)];
  exited.exit.pod_uid = Uid(agent);
  exited.exit.slot = slot;
  exited.exit.start = one.starts[static_cast<std::size_t>(slot)];
  exited.exit.signal = 9;
  Send(agent, exited);
}

void PlayedAgents::RestartRank(int agent, int slot) {
  std::string& start =
      agents_[static_cast<std::size_t>(agent)].starts[static_cast<std::size_t>(slot)];
  start = "0123456789abcdef-" + std::to_string(1 + epoch_.number);
  Send(agent, control::RankReady{slot, start});
}

void PlayedAgents::LoseAgent(int agent) {
  Agent& one = agents_[static_cast<std::size_t>(agent)];
  one.lost = true;
  one.line->Close();
}

// Sends the heartbeats of some of the agents at each tick, so that each sends one per period.
void PlayedAgents::Beat() {
  const std::size_t count = std::max<std::size_t>(
      1, agents_.size() * static_cast<std::size_t>(kTick / std::chrono::milliseconds(1)) /
             static_cast<std::size_t>(every_.count()));
  ++step_;
  for (std::size_t i = 0; i < count; ++i) {
    Agent& agent = agents_[next_beat_++ % agents_.size()];
    if (agent.lost || !agent.welcomed) continue;
    if (const std::string positions = Positions(agent); !positions.empty()) {
      agent.line->Send(positions);
    }
    agent.line->Send(R"({"everyMillis":0,"type":"Heartbeat"})");
  }
  beat_.expires_after(kTick);
  beat_.async_wait([this](const error_code& stopped) {
    if (!stopped) Beat();
  });
}

std::string PlayedAgents::Positions(const Agent& agent) const {
  std::string ranks;
  for (int slot = 0; slot < kSlots; ++slot) {
    const int rank = agent.ranks[static_cast<std::size_t>(slot)];
    if (rank < 0) continue;
    ranks += std::string(ranks.empty() ? "" : ",") +
             R"({"appliedMillis":40,"bucket":1,"entered":true,"ownMicros":30000,"peer":-1,)" +
             R"("phase":"reduce","rank":)" + std::to_string(rank) + R"(,"slot":)" +
             std::to_string(slot) + R"(,"step":)" + std::to_string(step_) +
             R"(,"stepMicros":50000,"stillMillis":3,"stopped":false})";
  }
  if (ranks.empty()) return {};
  return R"({"epoch":{"number":)" + std::to_string(epoch_.number) + R"(,"term":)" +
         std::to_string(epoch_.term) + R"(},"ranks":[)" + ranks + R"(],"type":"RankPositions"})";
}

}  // namespace ringmaster::bench
