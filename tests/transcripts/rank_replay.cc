#include "tests/transcripts/rank_replay.h"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "common/control/membership.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "worker/trainer/world_sources/agent/agent_membership.h"

namespace ringmaster::transcripts {
namespace {

using trainer::AgentMembership;
using trainer::World;
using Seconds = std::chrono::seconds;
using Texts = std::vector<std::string>;

constexpr Seconds kLimit{20};

// Fields of a rank's messages that may differ between implementations and runs.
constexpr std::pair<const char*, const char*> kFree[] = {
    {"RankHello", "pid"}, {"RankHello", "protocol"}, {"StoreGet", "id"}};

// A clock that advances a second per call, because the rank omits reports that are too frequent.
class HastyClock final : public Clock {
 public:
  Time Now() const override { return now_ += Seconds(1); }
  WallTime WallNow() const override { return {}; }

 private:
  mutable Time now_{};
};

class Player {
 public:
  explicit Player(const Transcript& transcript) : transcript_(transcript) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path() + "/agent";
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener_, 1);
    auto connected = AgentMembership::Connect(path, transcript.front().value("slot", 0), clock_);
    if (!connected.ok()) return;
    rank_ = *std::move(connected);
    connection_ = ::accept(listener_, nullptr, nullptr);
  }
  ~Player() {
    ::shutdown(connection_, SHUT_RDWR);  // pending reads fail
    next_ = {};
    values_ = {};
    granted_ = {};
    finished_ = {};
    rank_.reset();
    ::close(connection_);
    ::close(listener_);
  }

  std::string Play() {
    if (rank_ == nullptr) return "the rank did not connect";
    for (std::size_t line = 1; line < transcript_.size(); ++line) {
      const Json& now = transcript_[line];
      std::string wrong;
      if (now.contains("agent")) {
        wrong = Send(now.at("agent"));
      } else if (now.contains("rank")) {
        wrong = Expect(now.at("rank"));
      } else {
        wrong = Do(now.value("does", ""), now);
      }
      if (!wrong.empty()) return "line " + std::to_string(line + 1) + ": " + wrong;
    }
    return "";
  }

 private:
  static control::Epoch EpochOf(const Json& json) {
    return {json.at("term").get<int64_t>(), json.at("number").get<int64_t>()};
  }
  static int64_t Number(const Json& json, const char* field) {
    return json.at(field).get<int64_t>();
  }
  static std::string Text(const Json& json, const char* field) {
    return json.at(field).get<std::string>();
  }
  static control::Progress ProgressOf(const Json& json) {
    return {Number(json, "step"), Number(json, "totalSteps"),
            json.at("samplesPerSecond").get<double>(), json.at("loss").get<double>(),
            json.at("accuracy").get<double>()};
  }

  std::string Send(Json message) {
    if (message.at("type") == "StoreValues") message["id"] = asked_;
    const std::string line = message.dump() + "\n";
    return ::send(connection_, line.data(), line.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(line.size())
               ? ""
               : "the rank hung up";
  }

  // Expects `wanted` as the rank's next message, which may have more fields than the transcript.
  std::string Expect(const Json& wanted) {
    const std::optional<std::string> line = ReadLine();
    if (!line) return "the rank did not say " + wanted.dump();
    const Json said = Json::parse(*line);
    if (said.value("type", "") == "StoreGet") asked_ = said.at("id").get<int64_t>();
    for (const auto& [field, value] : wanted.items()) {
      bool free = false;
      for (const auto& [type, name] : kFree) free |= wanted.at("type") == type && field == name;
      if (!said.contains(field) || (!free && said.at(field) != value)) {
        return "the rank said " + *line + ", not " + wanted.dump();
      }
    }
    return "";
  }

  std::optional<std::string> ReadLine() const {
    std::string line;
    for (char c = 0;; line += c) {
      pollfd waiting{connection_, POLLIN, 0};
      if (::poll(&waiting, 1, static_cast<int>(kLimit.count()) * 1000) <= 0) return std::nullopt;
      if (::read(connection_, &c, 1) != 1) return std::nullopt;
      if (c == '\n') return line;
    }
  }

  std::string Do(const std::string& what, const Json& line) {
    if (what == "await a world") return AwaitWorld(EpochOf(line.at("after")));
    if (what == "enter the world") return Enter(line);
    if (what == "set") return Outcome(world_.store->Set(Text(line, "key"), Text(line, "value")));
    if (what == "get") return Get(line.at("keys").get<Texts>());
    if (what == "get values") return GetValues(line.at("values").get<Texts>());
    if (what == "report") return rank_->Report(world_, ProgressOf(line.at("progress"))), "";
    if (what == "find a switch wanted") return FindSwitch(line.at("leaving").get<bool>());
    if (what == "leave at the boundary") return rank_->AtBoundary(world_, Number(line, "step")), "";
    if (what == "find the world over") return FindOver();
    if (what == "report the world broken") {
      return rank_->Broken(world_, static_cast<int>(Number(line, "peer")), Text(line, "reason")),
             "";
    }
    if (what == "find a checkpoint wanted") {
      return Eventually([this] { return rank_->CheckpointWanted(world_.epoch); });
    }
    if (what == "write a shard") return WriteShard(line);
    if (what == "complete the checkpoint") return Complete(line);
    if (what == "say with what it begins") return Begin(line);
    if (what == "lack protection") {
      return rank_->Unprotected(Text(line, "what"), Text(line, "reason")), "";
    }
    if (what == "finish") return Finish(ProgressOf(line.at("progress")));
    if (what == "end") return End();
    if (what == "be killed" || what == "be told to end") return "";
    return "nobody knows how to \"" + what + "\"";
  }

  std::string AwaitWorld(control::Epoch after) {
    rank_->Unwatch();
    next_ = std::async(std::launch::async, [this, after] { return rank_->AwaitWorld(after); });
    return "";
  }

  std::string Enter(const Json& line) {
    if (next_.wait_for(kLimit) != std::future_status::ready) return "the rank entered no world";
    const Result<World> entered = next_.get();
    if (!entered.ok()) return entered.error().message;
    world_ = *entered;
    over_ = {};
    rank_->Watch(world_.epoch, [this](const std::string&) { over_.set_value(); });
    const bool same = world_.epoch == EpochOf(line.at("epoch")) &&
                      world_.rank == line.at("as_rank") && world_.size == line.at("size");
    return same ? "" : "the rank entered another world";
  }

  std::string Get(const Texts& keys) {
    values_ = std::async(std::launch::async, [store = world_.store, keys] {
      return store->Get(keys, trainer::Deadline(std::chrono::steady_clock::now() + kLimit));
    });
    return "";
  }

  std::string GetValues(const Texts& wanted) {
    const auto values = values_.get();
    if (!values.ok()) return values.error().message;
    return *values == wanted ? "" : "the rank got other values";
  }

  std::string FindSwitch(bool leaving) {
    const std::string wanted = Eventually([this] { return rank_->SwitchWanted(world_.epoch, 0); });
    if (!wanted.empty()) return wanted;
    return rank_->Leaving(world_.epoch) == leaving ? "" : "the rank knows it otherwise";
  }

  std::string FindOver() {
    return over_.get_future().wait_for(kLimit) == std::future_status::ready
               ? ""
               : "the rank did not find the world over";
  }

  std::string WriteShard(const Json& line) {
    granted_ = std::async(
        std::launch::async,
        [this, shard = trainer::WrittenShard{.step = Number(line, "step"),
                                             .shard = static_cast<int32_t>(Number(line, "shard")),
                                             .bytes = Number(line, "bytes"),
                                             .checksum = Text(line, "checksum")}] {
          return rank_->AwaitGrant(shard, {});
        });
    return "";
  }

  std::string Begin(const Json& line) {
    rank_->Began(world_, {.version = {.epoch = {}, .step = Number(line, "step")},
                          .text = Text(line, "message")});
    return "";
  }

  std::string Complete(const Json& line) {
    const std::string granted = Outcome(granted_.get());
    if (granted.empty()) {
      rank_->CheckpointComplete(Number(line, "step"), Number(line, "bytes"));
    }
    return granted;
  }

  std::string Finish(const control::Progress& progress) {
    finished_ = std::async(std::launch::async,
                           [this, progress] { return rank_->Finish(world_, progress); });
    return "";
  }

  std::string End() {
    const Result<bool> released = finished_.get();
    if (!released.ok()) return released.error().message;
    return *released ? "" : "the rank was not released";
  }

  static std::string Outcome(const Result<void>& result) {
    return result.ok() ? "" : result.error().message;
  }

  // Waits for a condition that becomes true on the rank's own thread.
  template <typename Condition>
  static std::string Eventually(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return "the rank did not notice";
      std::this_thread::yield();
    }
    return "";
  }

  const Transcript& transcript_;
  const trainer::TemporaryFolder folder_;
  const HastyClock clock_;
  int listener_ = -1;
  int connection_ = -1;
  int64_t asked_ = 0;  // id of the rank's newest StoreGet
  std::unique_ptr<AgentMembership> rank_;
  World world_;
  std::promise<void> over_;
  std::future<Result<World>> next_;
  std::future<Result<std::vector<std::string>>> values_;
  std::future<Result<void>> granted_;
  std::future<Result<bool>> finished_;
};

}  // namespace

std::string ReplayRank(const Transcript& transcript) { return Player(transcript).Play(); }

}  // namespace ringmaster::transcripts
