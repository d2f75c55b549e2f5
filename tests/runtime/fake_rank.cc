// A rank without a model. It implements the whole rank protocol and fails on request, so that tests
// of the launcher and agent are fast and deterministic. It is built as "ringmaster-train", the name
// by which the agent recognizes a program that implements the rank protocol. It moves from epoch to
// epoch as a real rank does, but its steps do not involve other ranks.
//
//   --steps=N          sends N progress reports before it is done
//   --until=FILE       is not done before FILE exists
//   --preload-exit=C   exits with C before RankHello
//   --fail-rank=R      this rank fails after its steps, by ...
//   --fail-code=C      ... exiting with C, or
//   --fail-signal=S    ... by a signal, or
//   --fail-memory=1    ... by allocating memory until the kernel kills it
//   --fail-late=1      ... only after the release of the ranks
//   --fail-once=FILE   ... unless FILE exists; it creates FILE before it fails
//   --cuda=FILE        uses one of the GPUs whose UUIDs are the lines of FILE, numbered as CUDA
//                      numbers them; a rank that fails breaks its GPU

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

#include "common/control/blocking_line_client.h"
#include "common/control/exit_codes.h"
#include "common/control/messages.h"
#include "common/control/pod_contract.h"

namespace {

namespace control = ringmaster::control;
using Flags = std::map<std::string, std::string>;
using Deadline = control::BlockingLineClient::Deadline;

constexpr int kProtocolBroken = 90;
constexpr std::chrono::milliseconds kPoll{20};

Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

Flags ReadFlags(int argc, char** argv) {
  Flags flags = {{"steps", "3"}, {"fail-rank", "-1"}, {"fail-code", "0"}, {"fail-signal", "0"}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    flags[word.substr(2, equals - 2)] = word.substr(equals + 1);
  }
  return flags;
}

// Allocates 2 GiB, which is more than the memory limit of any test.
void TakeMemory() {
  constexpr std::size_t kBlock = 16 << 20;
  for (int block = 0; block < 128; ++block) {
    char* memory = static_cast<char*>(std::malloc(kBlock));
    if (memory == nullptr) return;
    for (std::size_t page = 0; page < kBlock; page += 4096) memory[page] = 1;
    *static_cast<volatile char*>(memory) = 1;
  }
}

std::vector<std::string> Lines(std::istream&& text, char end = '\n') {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line, end);) lines.push_back(line);
  return lines;
}

// Returns the working GPUs, as CUDA lists them. If CUDA_VISIBLE_DEVICES is set, the list ends
// before the first GPU in it that does not work.
std::vector<std::string> VisibleGpus(const std::string& file) {
  std::vector<std::string> working = Lines(std::ifstream(file));
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return working;
  std::vector<std::string> chosen = Lines(std::istringstream(visible), ',');
  const auto none = std::ranges::find_if(chosen, [&](const std::string& uuid) {
    return std::ranges::find(working, uuid) == working.end();
  });
  chosen.erase(none, chosen.end());
  return chosen;
}

std::string g_gpu;  // UUID of this rank's GPU

// Chooses a GPU as ringmaster-train does (worker/trainer/gpu/gpu_choice.h).
void TakeGpu(const std::string& file) {
  const std::vector<std::string> visible = VisibleGpus(file);
  const bool pinned = std::getenv(control::kEnvGpuUuid) != nullptr;
  const auto number = static_cast<std::size_t>(pinned ? 0 : std::atoi(std::getenv("LOCAL_RANK")));
  if (number >= visible.size()) {
    std::fprintf(stderr,
                 "CUDA reported \"no CUDA-capable device is detected\" (cudaErrorNoDevice)\n");
    std::exit(control::kExitDeviceUnhealthy);
  }
  g_gpu = visible[number];
  std::printf("slot %s holds %s\n", std::getenv(control::kEnvSlot), g_gpu.c_str());
}

void BreakGpu(const std::string& file) {
  std::vector<std::string> working = Lines(std::ifstream(file));
  std::erase(working, g_gpu);
  std::ofstream left(file + ".new");
  for (const std::string& uuid : working) left << uuid << '\n';
  left.close();
  std::filesystem::rename(file + ".new", file);
}

void FailIfAsked(const Flags& flags, int rank) {
  if (flags.at("fail-rank") != std::to_string(rank)) return;
  if (const auto once = flags.find("fail-once"); once != flags.end()) {
    if (std::filesystem::exists(once->second)) return;
    std::ofstream(once->second) << rank;
  }
  std::fprintf(stderr, "rank %d fails as it was asked to\n", rank);
  std::fflush(nullptr);
  if (const auto cuda = flags.find("cuda"); cuda != flags.end()) BreakGpu(cuda->second);
  if (flags.contains("fail-memory")) TakeMemory();
  const int signal = std::stoi(flags.at("fail-signal"));
  if (signal != 0) {
    std::signal(signal, SIG_DFL);
    kill(getpid(), signal);
  }
  std::_Exit(std::stoi(flags.at("fail-code")));
}

class Rank {
 public:
  Rank(control::BlockingLineClient& agent, const Flags& flags) : agent_(agent), flags_(flags) {}

  // Takes part in one epoch after another, until the rank is released.
  void Run() {
    Send(control::RankHello{std::atoi(std::getenv(control::kEnvSlot)), getpid()});
    while (!released_) {
      while (!next_.has_value()) Listen(In(std::chrono::seconds(60)));
      world_ = *std::exchange(next_, std::nullopt);
      over_ = switching_ = false;
      std::printf("rank %d of %zu in epoch %lld\n", world_.rank, world_.members.size(),
                  static_cast<long long>(world_.epoch.number));
      std::printf("rank %d runs in %s\n", world_.rank, std::filesystem::current_path().c_str());
      if (MeetTheOthers()) Train();
    }
    FailIfAsked(flags_, world_.rank);
  }

 private:
  void Send(const control::Message& message) {
    if (!agent_.Send(message, In(std::chrono::seconds(60))).ok()) std::exit(kProtocolBroken);
  }

  // Handles one message, if any arrives before the deadline.
  void Listen(Deadline deadline) {
    auto message = agent_.Receive(deadline);
    if (!message.ok()) {
      if (message.error().kind == ringmaster::ErrorKind::kTimeout) return;
      std::fprintf(stderr, "lost the agent: %s\n", message.error().message.c_str());
      std::exit(kProtocolBroken);
    }
    if (auto* epoch = std::get_if<control::RankEpoch>(&*message)) {
      if (epoch->epoch < below_ || epoch->epoch <= world_.epoch) std::exit(kProtocolBroken);
      next_ = std::move(*epoch);
      over_ = true;
    } else if (const auto* leave = std::get_if<control::RankLeave>(&*message)) {
      below_ = leave->below;
      if (world_.epoch < below_) over_ = true;
    } else if (const auto* wanted = std::get_if<control::RankSwitch>(&*message)) {
      if (wanted->epoch == world_.epoch) switching_ = true;
    } else if (const auto* release = std::get_if<control::Release>(&*message)) {
      if (release->epoch == world_.epoch) released_ = true;
    } else if (auto* values = std::get_if<control::StoreValues>(&*message)) {
      if (values->epoch == world_.epoch) values_ = std::move(*values);
    }
  }

  // Publishes a value and reads the values of all ranks, as a real rendezvous does. Returns false
  // if the epoch ended meanwhile.
  bool MeetTheOthers() {
    Send(control::StoreSet{world_.epoch, "rank/" + std::to_string(world_.rank),
                           "hello of " + std::to_string(world_.rank)});
    control::StoreGet get{world_.epoch, 1, world_.rank, {}};
    for (const control::Member& member : world_.members) {
      get.keys.push_back("rank/" + std::to_string(member.rank));
    }
    Send(get);
    values_.reset();
    const Deadline deadline = In(std::chrono::seconds(60));
    while (!values_.has_value() && !over_) {
      Listen(deadline);
      if (std::chrono::steady_clock::now() >= deadline) std::exit(kProtocolBroken);
    }
    if (over_) return false;
    for (std::size_t rank = 0; rank < values_->values.size(); ++rank) {
      if (values_->values[rank] != "hello of " + std::to_string(rank)) std::exit(kProtocolBroken);
    }
    std::printf("met %zu ranks\n", values_->values.size());
    return true;
  }

  void Train() {
    const int steps = std::stoi(flags_.at("steps"));
    while (step_ < steps) {
      ++step_;
      std::printf("step %d of rank %d\n", step_, world_.rank);
      ReportProgress(steps);
    }
    if (!flags_.contains("fail-late")) FailIfAsked(flags_, world_.rank);
    ReportProgress(steps);
    const auto until = flags_.find("until");
    bool done = false;
    while (!over_ && !released_) {
      if (!done && (until == flags_.end() || std::filesystem::exists(until->second))) {
        done = true;
        Send(control::RankDone{world_.epoch, world_.rank});
      }
      if (std::exchange(switching_, false)) {
        Send(control::RankAtBoundary{world_.epoch, world_.rank, step_});
      }
      Listen(In(kPoll));
    }
  }

  void ReportProgress(int steps) {
    if (world_.rank != 0) return;
    control::Progress progress;
    progress.step = step_;
    progress.total_steps = steps;
    Send(control::RankProgress{world_.epoch, progress});
  }

  control::BlockingLineClient& agent_;
  const Flags& flags_;
  control::RankEpoch world_;
  std::optional<control::RankEpoch> next_;
  std::optional<control::StoreValues> values_;
  control::Epoch below_;
  bool over_ = false;
  bool switching_ = false;
  bool released_ = false;
  int step_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = ReadFlags(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (flags.contains("preload-exit")) {
    std::fprintf(stderr, "the data is not valid\n");
    return std::stoi(flags.at("preload-exit"));
  }
  if (const auto cuda = flags.find("cuda"); cuda != flags.end()) TakeGpu(cuda->second);
  auto agent = control::BlockingLineClient::Connect(std::getenv(control::kEnvAgentSocket));
  if (!agent.ok()) return kProtocolBroken;
  Rank(**agent, flags).Run();
  return 0;
}
