#pragma once

// Simulates the agents of many workers in one process. Each agent has a separate TLS connection
// to the launcher. It sends the same messages as the agent of an elastic job when ranks load,
// attach, run and are lost. Heartbeats contain the ranks' positions. Single-threaded, on its
// io_context.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/control/messages.h"
#include "common/control/tls.h"

namespace ringmaster::bench {

inline constexpr int kSlots = 8;

class PlayedAgents {
 public:
  struct Options {
    std::string token;
    std::string job_uid;
    int port = 0;
    int agents = 0;
  };

  PlayedAgents(boost::asio::io_context& io, control::TlsContext& tls, Options options);
  ~PlayedAgents();

  static std::string Uid(int agent);
  static std::string Pod(int agent) { return "large-worker-" + std::to_string(agent); }
  static std::string Node(int agent) { return "node-" + std::to_string(agent); }

  void Dial();
  // Reports for every slot that mpirun's process has attached.
  void AttachAll(int64_t cohort);

  // Reports that a rank was killed by SIGKILL.
  void LoseRank(int agent, int slot);
  // Reports that the agent has restarted the rank, and that the rank has loaded.
  void RestartRank(int agent, int slot);
  // Closes the agent's connection. The agent and its ranks do not return.
  void LoseAgent(int agent);

  int Welcomed() const { return welcomed_; }
  // Return the newest epoch, and whether all running agents with members in it have received it.
  const control::Epoch& epoch() const { return epoch_; }
  bool AllInformed() const;
  std::size_t ranks() const { return world_.size(); }
  // Returns the number of connections that ended without LoseAgent(). Their agents reconnect.
  int Dropped() const { return dropped_; }

 private:
  class Line;
  struct Agent {
    std::shared_ptr<Line> line;
    control::Epoch told;
    std::vector<std::string> starts;
    std::vector<int> ranks;  // rank of each slot; -1: the slot has none in the newest world
    bool welcomed = false;
    bool lost = false;
  };

  void Dial(int agent);
  void OnClosed(int agent);
  void OnLine(int agent, const std::string& text);
  void OnMessage(int agent, const control::Message& message);
  void OnEpoch(int agent, const control::Epoch& epoch);
  void Change(const control::ChangeEpoch& change);
  void PlaceRanks();
  void Send(int agent, const control::Message& message);
  void Beat();
  std::string Positions(const Agent& agent) const;

  boost::asio::io_context& io_;
  control::TlsContext& tls_;
  const Options options_;
  std::vector<Agent> agents_;
  std::vector<std::pair<int, int>> world_;  // agent and slot of each rank
  std::map<std::string, int> by_uid_;
  control::Epoch epoch_;
  int welcomed_ = 0;
  int dropped_ = 0;
  boost::asio::steady_timer beat_;
  std::chrono::milliseconds every_{100};
  std::size_t next_beat_ = 0;
  int64_t step_ = 0;
};

}  // namespace ringmaster::bench
