// A rank without a model: speaks the whole rank protocol and misbehaves on request, so that tests
// of launcher and agent are quick and exact. Built as "ringmaster-train", the name by which a
// managed trainer is known.
//
//   --steps=N          progress reports before it is done                    --preload-exit=CODE
//   ends before RankHello
//   --fail-rank=R      this rank fails after its steps, by ...               --until=FILE is not
//   done before FILE exists
//   --fail-code=C      ... exiting with C, or                                --fail-signal=S ... by
//   a signal

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <variant>
#include <vector>

#include "common/control/blocking_line_client.h"
#include "common/control/messages.h"
#include "common/control/pod_contract.h"

namespace {

namespace control = ringmaster::control;
using Flags = std::map<std::string, std::string>;

constexpr int kProtocolBroken = 90;

control::BlockingLineClient::Deadline Soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

Flags ReadFlags(int argc, char** argv) {
  Flags flags = {{"steps", "3"}, {"fail-rank", "-1"}, {"fail-code", "0"}, {"fail-signal", "0"}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    flags[word.substr(2, equals - 2)] = word.substr(equals + 1);
  }
  return flags;
}

template <typename Expected>
Expected Await(control::BlockingLineClient& agent) {
  while (true) {
    auto message = agent.Receive(Soon());
    if (!message.ok()) {
      std::fprintf(stderr, "lost the agent: %s\n", message.error().message.c_str());
      std::exit(kProtocolBroken);
    }
    if (const auto* expected = std::get_if<Expected>(&*message)) return *expected;
  }
}

void Send(control::BlockingLineClient& agent, const control::Message& message) {
  if (!agent.Send(message, Soon()).ok()) std::exit(kProtocolBroken);
}

// Every rank publishes a value and reads all: what a real rendezvous does.
void MeetTheOthers(control::BlockingLineClient& agent, const control::RankEpoch& world) {
  Send(agent, control::StoreSet{world.epoch, "rank/" + std::to_string(world.rank),
                                "hello of " + std::to_string(world.rank)});
  control::StoreGet get{world.epoch, 1, world.rank, {}};
  for (const control::Member& member : world.members) {
    get.keys.push_back("rank/" + std::to_string(member.rank));
  }
  Send(agent, get);
  const auto values = Await<control::StoreValues>(agent);
  for (std::size_t rank = 0; rank < values.values.size(); ++rank) {
    if (values.values[rank] != "hello of " + std::to_string(rank)) std::exit(kProtocolBroken);
  }
  std::printf("met %zu ranks\n", values.values.size());
}

void FailIfAsked(const Flags& flags, int rank) {
  if (flags.at("fail-rank") != std::to_string(rank)) return;
  std::fprintf(stderr, "rank %d fails as it was asked to\n", rank);
  std::fflush(nullptr);
  const int signal = std::stoi(flags.at("fail-signal"));
  if (signal != 0) {
    std::signal(signal, SIG_DFL);
    kill(getpid(), signal);
  }
  std::_Exit(std::stoi(flags.at("fail-code")));
}

void Train(control::BlockingLineClient& agent, const control::RankEpoch& world,
           const Flags& flags) {
  const int steps = std::stoi(flags.at("steps"));
  for (int step = 1; step <= steps; ++step) {
    std::printf("step %d of rank %d\n", step, world.rank);
    if (world.rank != 0) continue;
    control::Progress progress;
    progress.step = step;
    progress.total_steps = steps;
    Send(agent, control::RankProgress{world.epoch, progress});
  }
  FailIfAsked(flags, world.rank);
  const auto until = flags.find("until");
  while (until != flags.end() && !std::filesystem::exists(until->second)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = ReadFlags(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (flags.contains("preload-exit")) {
    std::fprintf(stderr, "the data are no data\n");
    return std::stoi(flags.at("preload-exit"));
  }
  auto agent = control::BlockingLineClient::Connect(std::getenv(control::kEnvAgentSocket));
  if (!agent.ok()) return kProtocolBroken;
  Send(**agent, control::RankHello{std::atoi(std::getenv(control::kEnvSlot)), getpid()});
  const auto world = Await<control::RankEpoch>(**agent);
  std::printf("rank %d of %zu in epoch %lld\n", world.rank, world.members.size(),
              static_cast<long long>(world.epoch.number));
  MeetTheOthers(**agent, world);
  Train(**agent, world, flags);
  Send(**agent, control::RankDone{world.epoch, world.rank});
  Await<control::Release>(**agent);
  return 0;
}
