#include "worker/bench/harness/ranks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <memory>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <c10/util/Exception.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/control/pod_contract.h"
#include "worker/bench/harness/command.h"
#include "worker/bench/harness/scratch_folder.h"
#include "worker/trainer/comm/file_store.h"
#include "worker/trainer/train/out_of_memory.h"
#include "worker/trainer/world_sources/agent/agent_membership.h"

namespace ringmaster::bench {
namespace {

using RankMain = std::function<int(const trainer::World& world)>;

int Guarded(const trainer::World& world, const RankMain& rank_main) {
  const std::string who = "rank " + std::to_string(world.rank) + ": ";
  try {
    return rank_main(world);
  } catch (const c10::OutOfMemoryError& error) {
    return Refuse(who + trainer::OutOfMemorySentence(error.what_without_backtrace(), "the bench",
                                                     "lower -e or use fewer ranks per GPU"));
  } catch (const std::exception& error) {
    return Refuse(who + error.what(), 1);
  }
}

// Runs this process as a rank of a job. The job ends when its ranks end.
int RunUnderAgent(const RankMain& rank_main) {
  const SystemClock clock;
  const char* slot = std::getenv(control::kEnvSlot);
  auto membership = trainer::AgentMembership::Connect(std::getenv(control::kEnvAgentSocket),
                                                      slot == nullptr ? 0 : std::atoi(slot), clock);
  if (!membership.ok()) return Refuse(membership.error().message, 1);
  const Result<trainer::World> world = (*membership)->AwaitWorld({});
  if (!world.ok()) return Refuse(world.error().message, 1);
  const int code = Guarded(*world, rank_main);
  if (code != 0) return code;
  const Result<bool> released = (*membership)->Finish(*world, {.step = 1, .total_steps = 1});
  if (!released.ok()) return Refuse(released.error().message, 1);
  return *released ? 0 : Refuse("the job's world changed during the measurement", 1);
}

Result<void> EnterNamespace(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && ::setns(fd, CLONE_NEWNET) == 0;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (entered) return {};
  return Error{ErrorKind::kUnavailable,
               "while entering the network namespace " + name + ": " + std::strerror(why)};
}

int RunLocalRank(int rank, const RankOptions& options, const std::string& folder,
                 const RankMain& rank_main) {
  const auto index = static_cast<std::size_t>(rank);
  if (!options.namespaces.empty()) {
    const Result<void> entered = EnterNamespace(options.namespaces[index]);
    if (!entered.ok()) return Refuse(entered.error().message, 1);
  }
  Result<std::unique_ptr<trainer::FileStore>> store = trainer::FileStore::Open(folder);
  if (!store.ok()) return Refuse(store.error().message, 1);
  trainer::World world;
  world.epoch = {.term = 1, .number = 1};
  world.rank = rank;
  world.size = world.ranks_on_host = options.ranks;
  world.one_machine = options.namespaces.empty();
  world.store = *std::move(store);
  if (!options.addresses.empty()) world.address = options.addresses[index];
  for (int other = 0; other < world.size; ++other) {
    world.members.push_back("bench/" + std::to_string(other) + "/1");
  }
  return Guarded(world, rank_main);
}

int ExitCodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Waits for all ranks. If a rank fails, kills the other ranks, because they would wait for it.
int AwaitRanks(std::vector<pid_t> running) {
  int worst = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    if (std::erase(running, ended) == 0) continue;
    const int code = ExitCodeOf(status);
    if (code == 0 || worst != 0) continue;
    worst = code;
    for (const pid_t other : running) ::kill(other, SIGKILL);
  }
  return worst;
}

int RunLocally(const RankOptions& options, const RankMain& rank_main) {
  const ScratchFolder folder("/dev/shm/ringmaster-bench");
  std::fflush(nullptr);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const int code = RunLocalRank(rank, options, folder.path(), rank_main);
      std::fflush(nullptr);
      ::_exit(code);
    }
    if (child < 0) {
      for (const pid_t started : ranks) ::kill(started, SIGKILL);
      break;
    }
    ranks.push_back(child);
  }
  const bool all = static_cast<int>(ranks.size()) == options.ranks;
  const int worst = AwaitRanks(std::move(ranks));
  return all ? worst : Refuse("this host cannot start that many processes", 1);
}

}  // namespace

bool UnderAgent() { return std::getenv(control::kEnvAgentSocket) != nullptr; }

int RunOnRanks(const RankOptions& options, const RankMain& rank_main) {
  InitLog(ProgramName(), "warn", LogFormat::kText);
  return UnderAgent() ? RunUnderAgent(rank_main) : RunLocally(options, rank_main);
}

}  // namespace ringmaster::bench
